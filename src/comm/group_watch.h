// Whoever watches what a thread does with other members of groups: says so before each call, and
// while it waits.
//
// Why ranks that share layers do not wait for each other in a circle. The messages of a pipeline
// are instructions, which verify() proves to complete; calls of groups within an F, B or I are
// none. That they complete, too, follows from three facts:
//  1. Ranks at one place of the pipeline that differ in tp alone run the same row of the program,
//     and exchange messages with ranks of their own tp coordinate only.
//  2. Within an instruction they make the same calls of the same groups in the same order: the same
//     code makes the same graph of the same sizes, and a backward goes through it in the order in
//     which it was made. Recomputation makes the calls of its forward once more, within the same
//     backward.
//  3. A call hands over without waiting, and its members meet by the group and the number of the
//     call in it, never by what arrives first. So a reduction of gradients that is still on its way
//     over replicas holds none up.
// Take an order in which the proven program completes where no message is kept ready, and the first
// instruction in it that has not completed on all ranks of its place. All before it has: its inputs
// have been sent to each of these ranks, by ranks of its own coordinate. So each of them enters the
// instruction, by 2 they make the same calls, by 3 each call completes, and so does the
// instruction. Sums of gradients and the norm come behind all layers, in one order on all ranks.
// Code that decides by rank or by data can break 2: so calls are watched, and compared.
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
