// The ground that a Group stands on: exchanges between its members.
//
// Owns: the interface. Does not own: what collectives mean (group.h). Implemented for ranks of one
// process and of several by group_state.cpp.
// Thread-safety: as Group.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/parts/group.h"

namespace sluice {

// The words of a member beside its tensors.
struct GroupNote {
  std::string call;  // for people, and compared: "all_reduce of float32[3]"
  std::string bytes;
};

// The gifts of all members of a group to one of them, in their order.
struct Exchanged {
  std::vector<GroupNote> notes;
  std::vector<at::Tensor> pieces;
};

// The gift of a member to an exchange.
struct Gift {
  GroupNote note;
  std::vector<at::Tensor> pieces;
};

// Moves what a Group compares and adds. One for each kind of transport, one object for each member.
class GroupBackend {
 public:
  virtual ~GroupBackend() = default;

  virtual int rank() const = 0;  // as Group::rank
  virtual const std::vector<int>& members() const = 0;

  // Hands over without waiting: the note to every member, pieces[i] (which may be undefined) to
  // member i; no pieces at all stand for undefined ones. The k-th exchange of each member is one
  // exchange.
  virtual Work<Exchanged> exchange(GroupNote note, std::vector<at::Tensor> pieces) = 0;

  // Two exchanges in a row, without a wait between them: `next` makes the member's gift to the
  // second of what it got in the first, once, on whatever thread brings the last of it. What it
  // throws ends the wait.
  virtual Work<Exchanged> exchange_twice(GroupNote note, std::vector<at::Tensor> pieces,
                                         std::function<Gift(Exchanged)> next) = 0;
  // Members are in several processes: what they give each other costs time by the byte.
  virtual bool spans_processes() const = 0;

  // The group of some of the members, this one among them. All of them call it, right after the
  // same exchange, and several such groups may be made after one exchange.
  virtual std::shared_ptr<GroupBackend> split(std::vector<int> members) = 0;
};

}  // namespace sluice
