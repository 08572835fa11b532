// Groups of ranks that are threads of one process: what is given lies in what they share until all
// have joined.
//
// Owns: what the members of a group gave and did not yet take.
// Does not own: the failure that ends waits (FirstFailure), what collectives mean (Group).
// Thread-safety: any thread may call a GroupState.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/first_failure.h"
#include "sluice/parts/group.h"

namespace sluice {

// What the members of one group share.
class GroupState {
 public:
  GroupState(std::vector<int> members, std::chrono::milliseconds deadline,
             std::shared_ptr<const FirstFailure> failure)
      : members_(std::move(members)), deadline_(deadline), failure_(std::move(failure)) {}

  const std::vector<int>& members() const { return members_; }

  // One exchange: every member joins once, whenever it wants, and may then wait for the others.
  struct Collective;
  std::shared_ptr<Collective> enter(int member, std::uint64_t number, GroupNote note,
                                    std::vector<at::Tensor> pieces);
  Exchanged wait(int member, Collective& collective);

  // What some of the members share, split off after exchange `number`: the same for all of them.
  std::shared_ptr<GroupState> split(const std::vector<int>& members, std::uint64_t number);

  // After a failure: ends every wait, here and in groups split off, and drops what was given in
  // exchanges to which not all have joined.
  void wake();

 private:
  const std::vector<int> members_;
  const std::chrono::milliseconds deadline_;
  const std::shared_ptr<const FirstFailure> failure_;

  std::mutex mutex_;
  std::condition_variable all_joined_;
  std::map<std::uint64_t, std::shared_ptr<Collective>> open_;  // not all have joined
  std::map<std::pair<std::uint64_t, int>, std::weak_ptr<GroupState>> split_off_;
};

// The group of those who share `state`, for the member whose rank in the transport is `rank`.
Group make_local_group(std::shared_ptr<GroupState> state, int rank);

}  // namespace sluice
