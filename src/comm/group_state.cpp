#include "comm/group_state.h"

#include <algorithm>

#include "base/format.h"
#include "base/text.h"
#include "comm/group_backend.h"
#include "comm/group_watch.h"
#include "comm/process_ranks.h"

namespace sluice {

struct GroupState::Collective : std::enable_shared_from_this<Collective> {
  struct Given {
    bool joined = false;
    GroupNote note;
    std::vector<at::Tensor> pieces;
    Ready ready;
  };
  explicit Collective(std::size_t size) : of_member(size), when_joined(size) {
    refused.resize(size);
  }
  bool complete() const { return num_joined == of_member.size(); }

  std::vector<Given> of_member;
  std::size_t num_joined = 0;
  // when_joined and refused have entries for local members only.
  std::vector<WhenJoined> when_joined;
  std::vector<std::exception_ptr> refused;
};

GroupState::GroupState(ProcessRanks& process, std::string id, std::vector<int> members)
    : process_(process), id_(std::move(id)), members_(std::move(members)) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const int at = process_.process_of(members_[i]);
    is_here_.push_back(at == process_.here());
    if (!is_here_.back()) elsewhere_[at].push_back(i);
  }
}

GroupState::CollectivePtr GroupState::open_locked(std::uint64_t number) {
  const auto found = open_.try_emplace(number).first;
  if (!found->second) found->second = std::make_shared<Collective>(members_.size());
  return found->second;
}

GroupState::CollectivePtr GroupState::open(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  return open_locked(number);
}

void GroupState::join_locked(Collective& collective, std::uint64_t number, int member,
                             GroupNote note, std::vector<at::Tensor> pieces, Ready ready) {
  collective.of_member[member] = {true, std::move(note), std::move(pieces), std::move(ready)};
  if (++collective.num_joined == members_.size()) {
    open_.erase(number);
    changed_.notify_all();
  }
}

GroupState::CollectivePtr GroupState::enter(int member, std::uint64_t number, GroupNote note,
                                            std::vector<at::Tensor> pieces,
                                            WhenJoined when_joined) {
  if (GroupWatch* const watch = group_watch()) watch->calls(note.call);
  process_.failure().throw_if_happened();
  process_.count_as_this_thread();
  if (spans_processes()) {
    send(member, number, note, pieces);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (!is_here_[i]) pieces[i].reset();
    }
  }
  CollectivePtr collective;
  bool complete = false;
  {
    const std::lock_guard lock(mutex_);
    process_.failure().throw_if_happened();
    collective = open_locked(number);
    collective->when_joined[member] = std::move(when_joined);
    Ready ready = ready_now(pieces);
    join_locked(*collective, number, member, std::move(note), std::move(pieces), std::move(ready));
    complete = collective->complete();
  }
  go_on(*collective, complete);
  return collective;
}

void GroupState::send(int member, std::uint64_t number, const GroupNote& note,
                      const std::vector<at::Tensor>& pieces) const {
  for (const auto& [process, members] : elsewhere_) {
    CollectiveHead head{id_, number, member, note, {}};
    std::vector<at::Tensor> tensors;
    if (!pieces.empty()) {
      head.pieces.assign(members_.size(), -1);
      for (const std::size_t to : members) {
        const at::Tensor& piece = pieces[to];
        if (!piece.defined()) continue;
        auto known = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const at::Tensor& tensor) { return tensor.is_same(piece); });
        if (known == tensors.end()) known = tensors.insert(tensors.end(), piece);
        head.pieces[to] = known - tensors.begin();
      }
    }
    process_.send_to_process(process, {std::move(head), std::move(tensors)});
  }
}

void GroupState::arrive(int from_process, const CollectiveHead& head,
                        std::vector<at::Tensor> tensors, Ready ready) {
  const auto refuse_head = [&](const std::string& what) {
    throw Error(ErrorKind::kPeer,
                {.what = formatted("a message header is invalid: {} of exchange {} of group {}",
                                   what, head.number, id_)});
  };
  const auto members = elsewhere_.find(from_process);
  if (members == elsewhere_.end() ||
      std::find(members->second.begin(), members->second.end(),
                static_cast<std::size_t>(head.member)) == members->second.end()) {
    refuse_head("member " + std::to_string(head.member));
  }
  if (!head.pieces.empty() && head.pieces.size() != members_.size())
    refuse_head(std::to_string(head.pieces.size()) + " pieces");
  std::vector<at::Tensor> pieces(head.pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (is_here_[i] && head.pieces[i] >= 0) pieces[i] = tensors.at(head.pieces[i]);
  }
  CollectivePtr collective;
  bool complete = false;
  {
    const std::lock_guard lock(mutex_);
    if (process_.failure().happened()) return;
    collective = open_locked(head.number);
    if (collective->of_member[head.member].joined)
      refuse_head(formatted("member {} twice", head.member));
    join_locked(*collective, head.number, head.member, head.note, std::move(pieces),
                std::move(ready));
    complete = collective->complete();
  }
  tensors.clear();
  go_on(*collective, complete);
}

void GroupState::go_on(Collective& collective, bool complete) const {
  if (!complete) return;
  for (std::size_t member = 0; member < collective.when_joined.size(); ++member) {
    // The exchange is complete, so no other member accesses this member's tensors.
    if (const WhenJoined next = std::exchange(collective.when_joined[member], nullptr))
      next(take_locked(static_cast<int>(member), collective));
  }
}

void GroupState::refuse(int member, Collective& collective, std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    collective.refused[member] = std::move(error);
  }
  changed_.notify_all();
}

std::vector<int> GroupState::missing_locked(const Collective& collective) const {
  std::vector<int> missing;
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (!collective.of_member[i].joined) missing.push_back(members_[i]);
  return missing;
}

std::string GroupState::missing_text(int member, const Collective& collective) const {
  std::vector<std::string> missing;
  for (const int rank : missing_locked(collective))
    missing.push_back("rank " + std::to_string(rank));
  return formatted("rank {} waits in {} for {}", members_[member],
                   collective.of_member[member].note.call, join(missing, ", "));
}

void GroupState::wait_until_joined(int member, Collective& collective) {
  GroupWatch* watch = group_watch();
  if (watch) {
    std::string call;
    {
      const std::lock_guard lock(mutex_);
      if (!collective.complete()) call = collective.of_member[member].note.call;
    }
    if (call.empty()) {
      watch = nullptr;
    } else {
      watch->waits(call, [this, awaited = collective.shared_from_this()] {
        const std::lock_guard lock(mutex_);
        return missing_locked(*awaited);
      });
    }
  }
  wait_for_members(member, collective);
  if (watch) watch->members_came();
}

void GroupState::wait_for_members(int member, Collective& collective) {
  const ProcessRanks::Waiting waiting(process_, [&] {
    const std::lock_guard lock(mutex_);
    return collective.complete() ? std::string() : missing_text(member, collective);
  });
  std::unique_lock lock(mutex_);
  const auto give_up = std::chrono::steady_clock::now() + process_.deadline();
  const auto m = static_cast<std::size_t>(member);
  const bool in_time = changed_.wait_until(lock, give_up, [&] {
    return collective.complete() || collective.refused[m] || process_.failure().happened();
  });
  process_.failure().throw_if_happened();
  if (collective.refused[m]) std::rethrow_exception(collective.refused[m]);
  if (in_time) return;
  const auto absent = std::find_if(collective.of_member.begin(), collective.of_member.end(),
                                   [](const Collective::Given& given) { return !given.joined; });
  throw Error(
      ErrorKind::kPeer,
      {.what = formatted("only {} of {} ranks reached a collective within {} ms",
                         collective.num_joined, members_.size(), process_.deadline().count()),
       .where = missing_text(member, collective),
       .remedy = formatted("look at what rank {} is doing",
                           members_[absent - collective.of_member.begin()])});
}

Exchanged GroupState::wait(int member, Collective& collective) {
  wait_until_joined(member, collective);
  const std::lock_guard lock(mutex_);
  return take_locked(member, collective);
}

Exchanged GroupState::take_locked(int member, Collective& collective) const {
  const auto m = static_cast<std::size_t>(member);
  const at::Device device = process_.device_of(members_[m]);
  Exchanged exchanged;
  for (Collective::Given& given : collective.of_member) {
    exchanged.notes.push_back(given.note);
    std::vector<at::Tensor> piece(1);
    if (!given.pieces.empty()) piece[0] = std::move(given.pieces[m]);
    take_over(piece, given.ready, device);
    exchanged.pieces.push_back(std::move(piece[0]));
  }
  return exchanged;
}

void GroupState::wake() {
  {
    const std::lock_guard lock(mutex_);
    for (auto& [number, collective] : open_) {
      for (Collective::Given& given : collective->of_member) given.pieces.clear();
    }
  }
  changed_.notify_all();
}

namespace {

class RankGroup final : public GroupBackend {
 public:
  RankGroup(std::shared_ptr<ProcessRanks> process, GroupState& state, int rank)
      : process_(std::move(process)),
        state_(state),
        rank_(static_cast<int>(std::find(state.members().begin(), state.members().end(), rank) -
                               state.members().begin())) {}

  int rank() const override { return rank_; }
  const std::vector<int>& members() const override { return state_.members(); }
  bool spans_processes() const override { return state_.spans_processes(); }

  Work<Exchanged> exchange(GroupNote note, std::vector<at::Tensor> pieces) override {
    auto collective = state_.enter(rank_, num_exchanges_++, std::move(note), std::move(pieces));
    return Work<Exchanged>(
        [process = process_, state = &state_, rank = rank_, collective = std::move(collective)] {
          return state->wait(rank, *collective);
        });
  }

  Work<Exchanged> exchange_twice(GroupNote note, std::vector<at::Tensor> pieces,
                                 std::function<Gift(Exchanged)> next) override {
    const std::uint64_t number = num_exchanges_;
    num_exchanges_ += 2;
    GroupState::CollectivePtr second = state_.open(number + 1);
    // `state` stays valid, because ProcessRanks outlives the threads that call this.
    const auto go_on = [state = &state_, rank = rank_, number, second,
                        next = std::move(next)](Exchanged exchanged) {
      try {
        Gift gift = next(std::move(exchanged));
        state->enter(rank, number + 1, std::move(gift.note), std::move(gift.pieces));
      } catch (...) {
        state->refuse(rank, *second, std::current_exception());
      }
    };
    auto first = state_.enter(rank_, number, std::move(note), std::move(pieces), go_on);
    return Work<Exchanged>([process = process_, state = &state_, rank = rank_,
                            first = std::move(first), second = std::move(second)] {
      state->wait_until_joined(rank, *first);
      return state->wait(rank, *second);
    });
  }

  std::shared_ptr<GroupBackend> split(std::vector<int> members) override {
    const std::string id = formatted("{}/{}.{}", state_.id(), num_exchanges_, members.front());
    return std::make_shared<RankGroup>(process_, process_->group(id, members),
                                       state_.members()[rank_]);
  }

 private:
  std::shared_ptr<ProcessRanks> process_;
  GroupState& state_;
  int rank_;
  std::uint64_t num_exchanges_ = 0;
};

}  // namespace

Group make_group(std::shared_ptr<ProcessRanks> process, GroupState& state, int rank) {
  return Group(std::make_shared<RankGroup>(std::move(process), state, rank));
}

}  // namespace sluice
