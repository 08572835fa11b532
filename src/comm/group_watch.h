// Observes a thread's calls to other members of its groups.
//
// verify() proves that instructions complete, but group calls within an F, B or I are not
// instructions. These calls cannot deadlock either:
//  1. Ranks that differ only in tp run the same row of the program, and exchange messages only with
//  ranks of their own tp coordinate.
//  2. Within an instruction they make the same group calls in the same order: the same code builds
//  the same graph, and a backward traverses it in the order of its construction. Recomputation
//  repeats the forward's calls within the same backward.
//  3. A call hands over its data without waiting, and members are matched by group and call number.
//  A gradient reduction in flight therefore blocks no other call.
//
// Take an order in which the program completes without buffered messages. Its first instruction
// that hangs on some rank of its position has its inputs, so all these ranks enter it. By 2 they
// make the same calls, which by 3 complete. Gradient sums and the norm come after all layers, in
// the same order on all ranks. Code that branches on the rank or on data can break 2, so calls are
// compared.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sluice {

class GroupWatch {
 public:
  virtual ~GroupWatch() = default;
  // Called before a call. An exception cancels the call.
  virtual void calls(const std::string& call) = 0;
  // The thread waits for other members. Until members_came() or an error, any thread may call
  // `missing`, which returns the absent ones.
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

// May be null.
GroupWatch* group_watch();

}  // namespace sluice
