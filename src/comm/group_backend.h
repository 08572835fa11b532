// Exchanges tensors between the members of a group. Group builds its collectives on exchanges.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/parts/group.h"

namespace sluice {

struct GroupNote {
  std::string call;  // compared between members, such as "all_reduce of float32[3]"
  std::string bytes;
};

// What one member receives from all members, in member order.
struct Exchanged {
  std::vector<GroupNote> notes;
  std::vector<at::Tensor> pieces;
};

struct Gift {
  GroupNote note;
  std::vector<at::Tensor> pieces;
};

class GroupBackend {
 public:
  virtual ~GroupBackend() = default;

  virtual int rank() const = 0;
  virtual const std::vector<int>& members() const = 0;

  // Sends the note to every member and pieces[i] (maybe undefined) to member i, without blocking.
  // `pieces` may be empty. The k-th calls of all members form one exchange.
  virtual Work<Exchanged> exchange(GroupNote note, std::vector<at::Tensor> pieces) = 0;

  // Makes two exchanges without a wait between them. The thread that completes the first one calls
  // `next` once to get the second contribution. An exception from `next` ends the wait.
  virtual Work<Exchanged> exchange_twice(GroupNote note, std::vector<at::Tensor> pieces,
                                         std::function<Gift(Exchanged)> next) = 0;
  virtual bool spans_processes() const = 0;

  // Returns a group of `members`, which must include this member. All of `members` must call
  // split() after the same exchange. Repeated calls are allowed.
  virtual std::shared_ptr<GroupBackend> split(std::vector<int> members) = 0;
};

}  // namespace sluice
