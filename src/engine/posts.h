// The posts (asynchronous instructions, program.h) of a rank's step that no instruction has waited
// for yet, in order.
#pragma once

#include <utility>
#include <vector>

#include "engine/observer_list.h"
#include "sluice/parts/group.h"
#include "sluice/program.h"

namespace sluice {

class Posts {
 public:
  // Notifies `observers` once per wait, even for several posts.
  Posts(const Program& program, const ObserverList& observers)
      : program_(program), observers_(observers) {}

  void add(const Action& post, Work<void> work) { posts_.push_back({post, std::move(work)}); }
  bool has_used(const Action& user) const;
  // Waits for the posts whose results `user` needs. An exception becomes an Error that names the
  // post.
  void wait_for_used(const Action& user) {
    if (!posts_.empty()) wait(user, /*all=*/false);
  }
  void wait_for_rest(const Action& last) {
    if (!posts_.empty()) wait(last, /*all=*/true);
  }
  void clear() { posts_.clear(); }

 private:
  struct Post {
    Action action;
    Work<void> work;
  };
  void wait(const Action& user, bool all);

  const Program& program_;
  const ObserverList& observers_;
  std::vector<Post> posts_;
};

}  // namespace sluice
