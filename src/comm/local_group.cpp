#include "comm/local_group.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace sluice {

struct MeetingPlace::Meeting {
  struct Given {
    bool came = false;
    GroupNote note;
    std::vector<at::Tensor> pieces;
  };
  explicit Meeting(std::size_t size) : of_member(size) {}
  std::vector<Given> of_member;
  std::size_t num_came = 0;
};

std::shared_ptr<MeetingPlace::Meeting> MeetingPlace::come(int member, std::uint64_t number,
                                                          GroupNote note,
                                                          std::vector<at::Tensor> pieces) {
  const std::lock_guard lock(mutex_);
  failure_->throw_if_happened();
  const auto found = open_.try_emplace(number).first;
  if (!found->second) found->second = std::make_shared<Meeting>(members_.size());
  std::shared_ptr<Meeting> meeting = found->second;
  meeting->of_member[static_cast<std::size_t>(member)] = {true, std::move(note), std::move(pieces)};
  if (++meeting->num_came == members_.size()) {
    open_.erase(found);
    all_came_.notify_all();
  }
  return meeting;
}

Exchanged MeetingPlace::wait(int member, Meeting& meeting) {
  std::unique_lock lock(mutex_);
  const auto give_up = std::chrono::steady_clock::now() + deadline_;
  const bool in_time = all_came_.wait_until(
      lock, give_up, [&] { return meeting.num_came == members_.size() || failure_->happened(); });
  failure_->throw_if_happened();
  const auto m = static_cast<std::size_t>(member);
  if (!in_time) {
    std::vector<std::string> missing;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (!meeting.of_member[i].came) missing.push_back("rank " + std::to_string(members_[i]));
    }
    throw Error(ErrorKind::kPeer,
                {.what = "only " + std::to_string(meeting.num_came) + " of " +
                         std::to_string(members_.size()) + " ranks reached a collective within " +
                         std::to_string(deadline_.count()) + " ms",
                 .where = "rank " + std::to_string(members_[m]) + " waits in " +
                          meeting.of_member[m].note.call + " for " + join(missing, ", "),
                 .remedy = "look at what " + missing.front() + " is doing"});
  }
  Exchanged exchanged;
  for (Meeting::Given& given : meeting.of_member) {
    exchanged.notes.push_back(given.note);
    exchanged.pieces.push_back(given.pieces.empty() ? at::Tensor() : std::move(given.pieces[m]));
  }
  return exchanged;
}

std::shared_ptr<MeetingPlace> MeetingPlace::split(const std::vector<int>& members,
                                                  std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  std::erase_if(split_off_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<MeetingPlace>& known = split_off_[{number, members.front()}];
  std::shared_ptr<MeetingPlace> place = known.lock();
  if (!place) known = place = std::make_shared<MeetingPlace>(members, deadline_, failure_);
  return place;
}

void MeetingPlace::wake() {
  std::vector<std::shared_ptr<MeetingPlace>> split_off;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [number, meeting] : open_) {
      for (Meeting::Given& given : meeting->of_member) given.pieces.clear();
    }
    for (auto& [key, place] : split_off_) split_off.push_back(place.lock());
  }
  all_came_.notify_all();
  for (const auto& place : split_off) {
    if (place) place->wake();
  }
}

namespace {

class LocalGroup final : public GroupBackend {
 public:
  LocalGroup(std::shared_ptr<MeetingPlace> place, int rank)
      : place_(std::move(place)),
        rank_(static_cast<int>(std::find(place_->members().begin(), place_->members().end(), rank) -
                               place_->members().begin())) {}

  int rank() const override { return rank_; }
  const std::vector<int>& members() const override { return place_->members(); }

  Work<Exchanged> exchange(GroupNote note, std::vector<at::Tensor> pieces) override {
    auto meeting = place_->come(rank_, num_exchanges_++, std::move(note), std::move(pieces));
    return Work<Exchanged>([place = place_, rank = rank_, meeting = std::move(meeting)] {
      return place->wait(rank, *meeting);
    });
  }

  std::shared_ptr<GroupBackend> split(std::vector<int> members) override {
    const int rank = place_->members()[static_cast<std::size_t>(rank_)];
    return std::make_shared<LocalGroup>(place_->split(members, num_exchanges_), rank);
  }

 private:
  std::shared_ptr<MeetingPlace> place_;
  int rank_;  // among the members
  std::uint64_t num_exchanges_ = 0;
};

}  // namespace

Group make_local_group(std::shared_ptr<MeetingPlace> place, int rank) {
  return Group(std::make_shared<LocalGroup>(std::move(place), rank));
}

}  // namespace sluice
