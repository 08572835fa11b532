// Whoever watches what a thread does with other members of groups: says so before each call, and
// while it waits.
//
// Owns: the interface, and which one watches this thread. Does not own: groups (group.h).
// Thread-safety: told on the thread that it watches.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sluice {

class GroupWatch {
 public:
  virtual ~GroupWatch() = default;
  // The thread is about to take part. What this throws ends the call.
  virtual void calls(const std::string& call) = 0;
  // It waits for members; which ones have not come yet may be asked from any thread until
  // members_came(), or until the wait ends by an error.
  virtual void waits(const std::string& call, std::function<std::vector<int>()> missing) = 0;
  virtual void members_came() = 0;
};

// While it lives, `watch` watches this thread.
class GroupWatchScope {
 public:
  explicit GroupWatchScope(GroupWatch& watch);
  ~GroupWatchScope();
  GroupWatchScope(const GroupWatchScope&) = delete;
  GroupWatchScope& operator=(const GroupWatchScope&) = delete;

 private:
  GroupWatch* const outer_;
};

// The one of this thread, or null.
GroupWatch* group_watch();

}  // namespace sluice
