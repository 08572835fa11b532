// The verifier watches a limited number of ranks per pass of vector clocks. These tests use more
// ranks and compare channel occupancy with clocks over all ranks.
#include <gtest/gtest.h>

#include <map>
#include <queue>

#include "sluice/verify.h"
#include "support/programs.h"

namespace sluice::verify_channels_test {
namespace {

class PlainClocks {
 public:
  explicit PlainClocks(const Program& program) : p_(program), known_(program.ranks.size()) {}

  int max_in_flight() {
    std::vector<std::size_t> at(p_.ranks.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < at.size(); ++rank) {
        while (at[rank] < p_.ranks[rank].size() && run(rank, p_.ranks[rank][at[rank]])) {
          ++at[rank];
          moved = true;
        }
      }
    }
    for (std::size_t rank = 0; rank < at.size(); ++rank) {
      EXPECT_EQ(at[rank], p_.ranks[rank].size());
    }
    return largest_;
  }

 private:
  using Key = std::tuple<int, int, bool>;
  using Known = std::map<Key, int>;

  bool run(std::size_t rank, const Action& a) {
    const int here = static_cast<int>(rank);
    const auto at = [&](int stage) { return p_.stage_map.rank_of(stage); };
    switch (a.kind) {
      case ActionKind::kSendForward:
        return send(here, {here, at(a.stage + 1), true});
      case ActionKind::kSendBackward:
        return send(here, {here, at(a.stage - 1), false});
      case ActionKind::kRecvForward:
        return receive(here, {at(a.stage - 1), here, true});
      case ActionKind::kRecvBackward:
        return receive(here, {at(a.stage + 1), here, false});
      default:
        return true;
    }
  }

  bool send(int rank, const Key& channel) {
    messages_[channel].push(known_[rank]);
    largest_ = std::max(largest_, ++sent_[channel] - known_[rank][channel]);
    return true;
  }
  bool receive(int rank, const Key& channel) {
    if (messages_[channel].empty()) return false;
    for (const auto& [key, count] : messages_[channel].front()) {
      known_[rank][key] = std::max(known_[rank][key], count);
    }
    messages_[channel].pop();
    ++known_[rank][channel];
    return true;
  }

  const Program& p_;
  std::vector<Known> known_;
  std::map<Key, std::queue<Known>> messages_;
  std::map<Key, int> sent_;
  int largest_ = 0;
};

TEST(VerifyChannelsTest, AreMeasuredExactlyForEverySchedule) {
  for (const ScheduleInfo& info : schedule_table()) {
    for (const int num_ranks : {2, 3, 5}) {
      LowerOptions options;
      const Program program = lower(
          make_schedule(info.name, {.num_ranks = num_ranks, .num_microbatches = 12}), options);
      EXPECT_EQ(verify(program).max_in_flight, PlainClocks(program).max_in_flight()) << info.name;
    }
  }
}

TEST(VerifyChannelsTest, AreMeasuredExactlyForManyRanks) {
  for (const char* name : {"LoopedBFS", "Interleaved1F1B"}) {
    const Program program =
        lower(make_schedule(name, {.num_ranks = 70, .stages_per_rank = 2, .num_microbatches = 4}));
    EXPECT_EQ(verify(program).max_in_flight, PlainClocks(program).max_in_flight()) << name;
  }
}

// In GPipe a rank may send all forwards before the next rank receives the first.
TEST(VerifyChannelsTest, GPipeMayHaveAllMicrobatchesInFlight) {
  const VerifyReport report =
      verify(lower(make_schedule("GPipe", {.num_ranks = 4, .num_microbatches = 9})));
  EXPECT_EQ(report.max_in_flight, 9);
  EXPECT_EQ(report.required_capacity, 1);
}

// In 1F1B a rank can run ahead only as far as its warm-up lets it.
TEST(VerifyChannelsTest, OneForwardOneBackwardIsBoundedByItsWarmUp) {
  for (const int num_ranks : {2, 4, 7}) {
    const VerifyReport report = verify(
        lower(make_schedule("1F1B", {.num_ranks = num_ranks, .num_microbatches = 5 * num_ranks})));
    EXPECT_EQ(report.max_in_flight, num_ranks);
  }
}

}  // namespace
}  // namespace sluice::verify_channels_test
