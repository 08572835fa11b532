// Exchanges between the members of a group. Group builds its collectives on them. Thread-safety is
// that of Group.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/parts/group.h"

namespace sluice {

// What a member sends besides tensors.
struct GroupNote {
  std::string call;  // compared between members: "all_reduce of float32[3]"
  std::string bytes;
};

// What all members gave to one member, in member order.
struct Exchanged {
  std::vector<GroupNote> notes;
  std::vector<at::Tensor> pieces;
};

// A member's contribution to an exchange.
struct Gift {
  GroupNote note;
  std::vector<at::Tensor> pieces;
};

// One object per member.
class GroupBackend {
 public:
  virtual ~GroupBackend() = default;

  virtual int rank() const = 0;  // like Group::rank
  virtual const std::vector<int>& members() const = 0;

  // Sends the note to every member and pieces[i] (maybe undefined) to member i, without blocking.
  // No pieces mean that all are undefined. The k-th exchanges of all members belong together.
  virtual Work<Exchanged> exchange(GroupNote note, std::vector<at::Tensor> pieces) = 0;

  // Makes two exchanges without a wait between them. `next` makes the second contribution from the
  // result of the first. It is called once, on the thread that completes the first exchange; an
  // exception ends the wait.
  virtual Work<Exchanged> exchange_twice(GroupNote note, std::vector<at::Tensor> pieces,
                                         std::function<Gift(Exchanged)> next) = 0;
  // True if members are in several processes, so that bytes cost time.
  virtual bool spans_processes() const = 0;

  // Makes a group of some members, including this one. Each of them must call it after the same
  // exchange. Several groups may be made after one exchange.
  virtual std::shared_ptr<GroupBackend> split(std::vector<int> members) = 0;
};

}  // namespace sluice
