// The unfinished PARTIAL_NORM instructions of a rank's step (program.h), in program order.
#pragma once

#include <deque>
#include <utility>

#include "engine/executor.h"
#include "engine/observer_list.h"
#include "plan/neighbours.h"

namespace sluice {

class IdleWorks {
 public:
  IdleWorks(const Program& program, const ObserverList& observers)
      : program_(program), observers_(observers) {}

  void add(const Action& action, IdleWork work) {
    if (work) works_.push_back({action, std::move(work)});
  }
  template <typename IsOver>
  void run_until(const IsOver& is_over) {
    while (!works_.empty() && !is_over()) {
      const Action action = works_.front().action;
      observers_.tell(&ExecutorObserver::begin_idle_work, action);
      if (!works_.front().work()) works_.pop_front();
      observers_.tell(&ExecutorObserver::end_idle_work, action);
    }
  }
  void end_used(const Action& user) {
    if (works_.empty()) return;
    std::erase_if(works_, [&](Entry& entry) {
      if (!detail::uses(program_, user, entry.action)) return false;
      while (entry.work()) {
      }
      return true;
    });
  }
  void clear() { works_.clear(); }

 private:
  struct Entry {
    Action action;
    IdleWork work;
  };

  const Program& program_;
  const ObserverList& observers_;
  std::deque<Entry> works_;
};

}  // namespace sluice
