#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/parts/observers.h"

namespace sluice {

class ObserverList {
 public:
  explicit ObserverList(std::vector<ExecutorObserver*> observers)
      : observers_(std::move(observers)) {}
  void add(ExecutorObserver& last) { observers_.push_back(&last); }

  class Guest {
   public:
    Guest(ObserverList& list, ExecutorObserver& last) : list_(list) { list_.add(last); }
    ~Guest() { list_.observers_.pop_back(); }
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;

   private:
    ObserverList& list_;
  };

  template <typename... Parameters>
  void tell(void (ExecutorObserver::*call)(Parameters...),
            std::type_identity_t<Parameters>... arguments) const {
    for (ExecutorObserver* observer : observers_) (observer->*call)(arguments...);
  }

 private:
  std::vector<ExecutorObserver*> observers_;
};

}  // namespace sluice
