// The exchanges of a group, shared by its members in one process. arrive() adds other processes'
// contributions. A tensor is sent once to each process. Thread-safe.
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
  // `process` must outlive this object. `id` is equal in all processes.
  GroupState(ProcessRanks& process, std::string id, std::vector<int> members);

  const std::string& id() const { return id_; }
  const std::vector<int>& members() const { return members_; }
  bool spans_processes() const { return !elsewhere_.empty(); }

  struct Collective;
  using CollectivePtr = std::shared_ptr<Collective>;
  // Called on the thread that completes the exchange.
  using WhenJoined = std::function<void(Exchanged)>;

  CollectivePtr open(std::uint64_t number);
  // Adds a local member's contribution. The result goes to `when_joined`, or if null to wait().
  CollectivePtr enter(int member, std::uint64_t number, GroupNote note,
                      std::vector<at::Tensor> pieces, WhenJoined when_joined = nullptr);
  // Adds another process's contribution. Throws Error(kPeer) if the head is invalid.
  void arrive(int from_process, const CollectiveHead& head, std::vector<at::Tensor> tensors,
              Ready ready);
  void refuse(int member, Collective& collective, std::exception_ptr error);

  void wait_until_joined(int member, Collective& collective);
  Exchanged wait(int member, Collective& collective);

  // After a failure: ends every wait, and drops the tensors of incomplete exchanges.
  void wake();

 private:
  CollectivePtr open_locked(std::uint64_t number);
  void join_locked(Collective& collective, std::uint64_t number, int member, GroupNote note,
                   std::vector<at::Tensor> pieces, Ready ready);
  Exchanged take_locked(int member, Collective& collective) const;
  // Calls the `when_joined` callbacks if the exchange is complete. The mutex must not be held.
  void go_on(Collective& collective, bool complete) const;
  void wait_for_members(int member, Collective& collective);
  std::vector<int> missing_locked(const Collective& collective) const;
  std::string missing_text(int member, const Collective& collective) const;
  void send(int member, std::uint64_t number, const GroupNote& note,
            const std::vector<at::Tensor>& pieces) const;

  ProcessRanks& process_;
  const std::string id_;
  const std::vector<int> members_;
  std::vector<bool> is_here_;
  std::map<int, std::vector<std::size_t>> elsewhere_;  // other process -> its members

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, CollectivePtr> open_;  // incomplete exchanges
};

Group make_group(std::shared_ptr<ProcessRanks> process, GroupState& state, int rank);

}  // namespace sluice
