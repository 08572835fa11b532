#include "comm/local_group.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace sluice {

struct GroupState::Collective {
  struct Given {
    bool joined = false;
    GroupNote note;
    std::vector<at::Tensor> pieces;
  };
  explicit Collective(std::size_t size) : of_member(size) {}
  std::vector<Given> of_member;
  std::size_t num_joined = 0;
};

std::shared_ptr<GroupState::Collective> GroupState::enter(int member, std::uint64_t number,
                                                          GroupNote note,
                                                          std::vector<at::Tensor> pieces) {
  const std::lock_guard lock(mutex_);
  failure_->throw_if_happened();
  const auto found = open_.try_emplace(number).first;
  if (!found->second) found->second = std::make_shared<Collective>(members_.size());
  std::shared_ptr<Collective> collective = found->second;
  collective->of_member[member] = {true, std::move(note), std::move(pieces)};
  if (++collective->num_joined == members_.size()) {
    open_.erase(found);
    all_joined_.notify_all();
  }
  return collective;
}

Exchanged GroupState::wait(int member, Collective& collective) {
  std::unique_lock lock(mutex_);
  const auto give_up = std::chrono::steady_clock::now() + deadline_;
  const bool in_time = all_joined_.wait_until(lock, give_up, [&] {
    return collective.num_joined == members_.size() || failure_->happened();
  });
  failure_->throw_if_happened();
  const auto m = static_cast<std::size_t>(member);
  if (!in_time) {
    std::vector<std::string> missing;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (!collective.of_member[i].joined) missing.push_back("rank " + std::to_string(members_[i]));
    }
    throw Error(ErrorKind::kPeer,
                {.what = "only " + std::to_string(collective.num_joined) + " of " +
                         std::to_string(members_.size()) + " ranks reached a collective within " +
                         std::to_string(deadline_.count()) + " ms",
                 .where = "rank " + std::to_string(members_[m]) + " waits in " +
                          collective.of_member[m].note.call + " for " + join(missing, ", "),
                 .remedy = "look at what " + missing.front() + " is doing"});
  }
  Exchanged exchanged;
  for (Collective::Given& given : collective.of_member) {
    exchanged.notes.push_back(given.note);
    exchanged.pieces.push_back(given.pieces.empty() ? at::Tensor() : std::move(given.pieces[m]));
  }
  return exchanged;
}

std::shared_ptr<GroupState> GroupState::split(const std::vector<int>& members,
                                              std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  std::erase_if(split_off_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<GroupState>& known = split_off_[{number, members.front()}];
  std::shared_ptr<GroupState> state = known.lock();
  if (!state) known = state = std::make_shared<GroupState>(members, deadline_, failure_);
  return state;
}

void GroupState::wake() {
  std::vector<std::shared_ptr<GroupState>> split_off;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [number, collective] : open_) {
      for (Collective::Given& given : collective->of_member) given.pieces.clear();
    }
    for (auto& [key, state] : split_off_) split_off.push_back(state.lock());
  }
  all_joined_.notify_all();
  for (const auto& state : split_off) {
    if (state) state->wake();
  }
}

namespace {

class LocalGroup final : public GroupBackend {
 public:
  LocalGroup(std::shared_ptr<GroupState> state, int rank)
      : state_(std::move(state)),
        rank_(static_cast<int>(std::find(state_->members().begin(), state_->members().end(), rank) -
                               state_->members().begin())) {}

  int rank() const override { return rank_; }
  const std::vector<int>& members() const override { return state_->members(); }

  Work<Exchanged> exchange(GroupNote note, std::vector<at::Tensor> pieces) override {
    auto collective = state_->enter(rank_, num_exchanges_++, std::move(note), std::move(pieces));
    return Work<Exchanged>([state = state_, rank = rank_, collective = std::move(collective)] {
      return state->wait(rank, *collective);
    });
  }

  std::shared_ptr<GroupBackend> split(std::vector<int> members) override {
    const int rank = state_->members()[rank_];
    return std::make_shared<LocalGroup>(state_->split(members, num_exchanges_), rank);
  }

 private:
  std::shared_ptr<GroupState> state_;
  int rank_;  // among the members
  std::uint64_t num_exchanges_ = 0;
};

}  // namespace

Group make_local_group(std::shared_ptr<GroupState> state, int rank) {
  return Group(std::make_shared<LocalGroup>(std::move(state), rank));
}

}  // namespace sluice
