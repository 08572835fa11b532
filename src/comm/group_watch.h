// Observes a thread's collective calls within its tensor-parallel groups.
//
// verify() proves that a program's instructions complete, but not the collectives within a forward
// or backward. These cannot deadlock either:
//  1. Ranks that differ only in tp run the same instructions, and exchange messages only with ranks
//     of their tp coordinate.
//  2. Within an instruction they make the same calls in the same order. The same code builds the
//     same autograd graph, which backward traverses in a fixed order. Recomputation repeats the
//     forward's calls in the same backward.
//  3. A call sends data without waiting, and calls are matched by group and number. So a gradient
//     reduction in flight blocks no other call.
//
// Take an order in which the program completes without buffered messages, and its first instruction
// that hangs. Its inputs exist, so all ranks that differ only in tp enter it. By 2 they make the
// same calls, which complete by 3. Gradient sums and the norm follow all layers, in the same order
// on all ranks. Code that branches on the rank or on data can break 2, so calls are compared.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sluice {

class GroupWatch {
 public:
  virtual ~GroupWatch() = default;
  // Called before a collective call. An exception cancels the call.
  virtual void calls(const std::string& call) = 0;
  // Called when the thread waits for other members. Until members_came() or an error, any thread
  // may call `missing`, which returns the absent members.
  virtual void waits(const std::string& call, std::function<std::vector<int>()> missing) = 0;
  virtual void members_came() = 0;
};

class GroupWatchScope {
 public:
  explicit GroupWatchScope(GroupWatch& watch);
  ~GroupWatchScope();
  GroupWatchScope(const GroupWatchScope&) = delete;
  GroupWatchScope& operator=(const GroupWatchScope&) = delete;

 private:
  GroupWatch* const outer_;
};

// The current thread's watch, or null.
GroupWatch* group_watch();

}  // namespace sluice
