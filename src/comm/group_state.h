// The state that the members of one group in one process share: contributions of members here and
// elsewhere that not all have taken.
//
// Owns: exchanges on their way. Does not own: the failure that ends waits and the way to other
// processes (ProcessRanks), what collectives mean (Group).
//
// Invariants:
//  1. A member joins an exchange once: a rank here by enter(), one elsewhere by arrive(). Nobody
//     here can tell the difference.
//  2. A tensor goes to another process once, however many members there are given it; what is given
//     to members elsewhere is not kept here.
// Thread-safety: any thread may call anything.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/frame.h"
#include "comm/group_backend.h"
#include "device/ready.h"
#include "sluice/parts/group.h"

namespace sluice {

class ProcessRanks;

class GroupState {
 public:
  // The process outlives it. id: the same on all processes.
  GroupState(ProcessRanks& process, std::string id, std::vector<int> members);

  const std::string& id() const { return id_; }
  const std::vector<int>& members() const { return members_; }
  bool spans_processes() const { return !elsewhere_.empty(); }

  struct Collective;
  using CollectivePtr = std::shared_ptr<Collective>;
  // Called once, when all have joined, on the thread that brings the last.
  using WhenJoined = std::function<void(Exchanged)>;

  // Exchange `number`, which nobody need have joined yet.
  CollectivePtr open(std::uint64_t number);
  // A member that is here joins. With when_joined the member's part is given to that, not to
  // wait().
  CollectivePtr enter(int member, std::uint64_t number, GroupNote note,
                      std::vector<at::Tensor> pieces, WhenJoined when_joined = nullptr);
  // A member that is elsewhere has joined with tensors that are ready when `ready` is. Throws
  // Error(kPeer) where that cannot be.
  void arrive(int from_process, const CollectiveHead& head, std::vector<at::Tensor> tensors,
              Ready ready);
  // A member's wait for `collective` ends with this.
  void refuse(int member, Collective& collective, std::exception_ptr error);

  // Until all have joined.
  void wait_until_joined(int member, Collective& collective);
  // And takes what the member was given.
  Exchanged wait(int member, Collective& collective);

  // After a failure: ends every wait, and drops what was given in exchanges to which not all have
  // joined.
  void wake();

 private:
  CollectivePtr open_locked(std::uint64_t number);
  void join_locked(Collective& collective, std::uint64_t number, int member, GroupNote note,
                   std::vector<at::Tensor> pieces, Ready ready);
  Exchanged take_locked(int member, Collective& collective) const;
  // After the lock is released: what waits for all to have joined.
  void go_on(Collective& collective, bool complete) const;
  void wait_for_members(int member, Collective& collective);
  std::vector<int> missing_locked(const Collective& collective) const;
  std::string missing_text(int member, const Collective& collective) const;
  void send(int member, std::uint64_t number, const GroupNote& note,
            const std::vector<at::Tensor>& pieces) const;

  ProcessRanks& process_;
  const std::string id_;
  const std::vector<int> members_;
  std::vector<bool> is_here_;                          // for every member
  std::map<int, std::vector<std::size_t>> elsewhere_;  // other processes, and their members

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, CollectivePtr> open_;  // not all have joined
};

// The group of those who share `state`, of `process`, for the member whose rank in the transport is
// `rank`.
Group make_group(std::shared_ptr<ProcessRanks> process, GroupState& state, int rank);

}  // namespace sluice
