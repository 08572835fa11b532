// Compares verify() with an independent interpreter, on correct programs and on mutations.
#include <gtest/gtest.h>

#include <utility>

#include "plan/passes/passes.h"
#include "sluice/verify.h"
#include "support/interpreter.h"
#include "support/programs.h"

namespace sluice::verify_mutation_test {
namespace {

using testing::chance;
using testing::ChannelExplorer;
using testing::Interpreter;
using testing::lower_at_random;
using testing::pick;
using testing::RandomOrder;
using testing::rows_of;

class Mutator {
 public:
  Mutator(Program& program, std::mt19937& random) : program_(program), random_(random) {}

  void mutate() {
    const int rank = pick(random_, 0, program_.num_ranks() - 1);
    std::vector<Action>& row = program_.ranks[rank];
    if (row.empty()) return;
    const int at = pick(random_, 0, static_cast<int>(row.size()) - 1);
    const auto here = row.begin() + at;
    switch (pick(random_, 0, 8)) {
      case 0:
        std::iter_swap(here, row.begin() + std::min<int>(at + 1, static_cast<int>(row.size()) - 1));
        break;
      case 1:
        std::iter_swap(here, row.begin() + pick(random_, 0, static_cast<int>(row.size()) - 1));
        break;
      case 2:
        row.erase(here);
        break;
      case 3:
        insert(row, Action(*here));
        break;
      case 4: {
        const Action action = *here;
        row.erase(here);
        insert(row, action);
        break;
      }
      case 5:
        set_target(*here, pick(random_, -1, program_.num_stages()));
        break;
      case 6:
        here->microbatch = pick(random_, -1, program_.num_microbatches);
        break;
      case 7: {
        const Action action = *here;
        row.erase(here);
        insert(program_.ranks[pick(random_, 0, program_.num_ranks() - 1)], action);
        break;
      }
      case 8:
        if (here->kind != ActionKind::kOverlap) {
          const int target = target_of(*here);
          set_target(*here, -1);
          here->kind = static_cast<ActionKind>(pick(random_, 0, 16));
          if (here->kind == ActionKind::kOverlap) here->kind = ActionKind::kIdle;
          set_target(*here, target);
        } else {
          std::swap(here->stage, here->backward_stage);
          std::swap(here->microbatch, here->backward_microbatch);
        }
        break;
    }
  }

 private:
  static int target_of(const Action& action) {
    return action.kind == ActionKind::kReduceTied ? action.group : action.stage;
  }
  static void set_target(Action& action, int target) {
    if (action.kind == ActionKind::kReduceTied) {
      action.group = static_cast<std::int16_t>(target);
    } else {
      action.stage = target;
    }
  }

  void insert(std::vector<Action>& row, const Action& action) {
    row.insert(row.begin() + pick(random_, 0, static_cast<int>(row.size())), action);
  }

  Program& program_;
  std::mt19937& random_;
};

std::string listing(const Program& program, const VerifyReport& report) {
  std::string text;
  for (const std::string& row : rows_of(program)) text += row + "\n";
  for (const Violation& violation : report.violations) {
    text += std::to_string(violation.rank) + " " + std::to_string(violation.index) + " '" +
            violation.action + "' " + violation.reason + "\n";
  }
  return text;
}

void expect_well_formed(const Program& program, const VerifyReport& report) {
  for (const Violation& violation : report.violations) {
    EXPECT_FALSE(violation.reason.empty());
    ASSERT_LT(violation.rank, program.num_ranks());
    if (violation.index < 0) continue;
    ASSERT_GE(violation.rank, 0);
    ASSERT_LT(violation.index, static_cast<int>(program.ranks[violation.rank].size()));
    EXPECT_EQ(violation.action, to_text(program.ranks[violation.rank][violation.index]));
  }
}

TEST(VerifyMutationTest, AgreesWithTheInterpreterOnTenThousandMutations) {
  std::mt19937 random(20240607);
  int held = 0, refused = 0;
  for (int sample = 0; sample < 10000; ++sample) {
    Program program = lower_at_random(RandomOrder(random, 4, 2, 4).make(), random);
    const int mutations = pick(random, 1, 3);
    for (int i = 0; i < mutations; ++i) Mutator(program, random).mutate();
    const VerifyReport report = verify(program);
    ASSERT_EQ(report.ok(), Interpreter(program).accepts()) << "sample " << sample << "\n"
                                                           << listing(program, report);
    expect_well_formed(program, report);
    ++(report.ok() ? held : refused);
  }
  EXPECT_GT(held, 300);  // harmless mutations
  EXPECT_GT(refused, 5000);
}

TEST(VerifyMutationTest, AcceptsWhatThePassesMake) {
  std::mt19937 random(77);
  for (int sample = 0; sample < 2000; ++sample) {
    const Program program = lower_at_random(RandomOrder(random, 5, 3, 5).make(), random);
    const VerifyReport report = verify(program);
    ASSERT_TRUE(report.ok()) << "sample " << sample << "\n" << listing(program, report);
    ASSERT_TRUE(Interpreter(program).accepts()) << "sample " << sample;
  }
}

// Moves instructions within their rows as long as the program stays correct. add_transfers() places
// both ends of a transfer at one moment, so its programs complete with capacity 1. After the moves
// a program may need more.
Program with_drift(Program program, int attempts, std::mt19937& random) {
  for (int attempt = 0; attempt < attempts; ++attempt) {
    Program moved = program;
    std::vector<Action>& row = moved.ranks[pick(random, 0, program.num_ranks() - 1)];
    if (row.empty()) continue;
    const int from = pick(random, 0, static_cast<int>(row.size()) - 1);
    const int to = pick(random, 0, static_cast<int>(row.size()) - 1);
    const Action action = row[from];
    row.erase(row.begin() + from);
    row.insert(row.begin() + to, action);
    if (verify(moved).ok()) program = std::move(moved);
  }
  return program;
}

void expect_measured_as_by_all_timings(const Program& program) {
  const VerifyReport report = verify(program);
  ASSERT_TRUE(report.ok()) << listing(program, report);
  ChannelExplorer explorer(program);
  EXPECT_EQ(report.max_in_flight, explorer.max_in_flight()) << listing(program, report);
  EXPECT_EQ(report.required_capacity, explorer.required_capacity()) << listing(program, report);
}

TEST(VerifyMutationTest, MeasuresChannelsAsAllTimingsDo) {
  std::mt19937 random(4711);
  for (int sample = 0; sample < 400; ++sample) {
    Program program = with_drift(RandomOrder(random, 3, 3, 3).make(), 20, random);
    program = defer_receives(add_transfers(std::move(program)));
    program = with_drift(std::move(program), 20, random);
    if (chance(random, 20)) program = add_optimizer_step(std::move(program), true);
    expect_measured_as_by_all_timings(program);
  }
}

// Rank 0 sends all its forwards before it receives anything. Rank 1 receives each forward only
// after the previous gradient.
Program program_that_needs_room(int num_microbatches) {
  std::string ahead, behind, last, other;
  for (int mb = 0; mb < num_microbatches; ++mb) {
    const std::string m = std::to_string(mb);
    ahead += "0F" + m + ",0SEND_F" + m + ",";
    behind += "2RECV_F" + m + ",2F" + m + ",2B" + m + ",2SEND_B" + m + ",";
    last += (mb ? ",0RECV_B" : "0RECV_B") + m + ",0B" + m;
    other += (mb ? ",1RECV_F" : "1RECV_F") + m + ",1F" + m + ",1SEND_F" + m + ",1RECV_B" + m +
             ",1B" + m + ",1SEND_B" + m;
  }
  return testing::program_of({ahead + behind + last, other}, {0, 1, 0});
}

TEST(VerifyMutationTest, FindsTheCapacityThatAFarAheadSenderNeeds) {
  for (int num_microbatches = 1; num_microbatches <= 6; ++num_microbatches) {
    const Program program = program_that_needs_room(num_microbatches);
    EXPECT_EQ(verify(program).required_capacity, std::max(1, num_microbatches - 1));
    expect_measured_as_by_all_timings(program);
  }
}

TEST(VerifyMutationTest, MeasuresDriftedFarAheadSendersAsAllTimingsDo) {
  std::mt19937 random(1234);
  int above_one = 0;
  for (int sample = 0; sample < 200; ++sample) {
    const Program program =
        with_drift(program_that_needs_room(pick(random, 2, 5)), pick(random, 0, 60), random);
    expect_measured_as_by_all_timings(program);
    above_one += verify(program).required_capacity > 1;
  }
  EXPECT_GT(above_one, 80);
}

TEST(VerifyMutationTest, MeasuresAComputeOrderAsItsTransfersPlaced) {
  std::mt19937 random(99);
  for (int sample = 0; sample < 200; ++sample) {
    const Program order = RandomOrder(random, 4, 3, 4).make();
    const VerifyReport report = verify(order), placed = verify(add_transfers(order));
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report.required_capacity, placed.required_capacity);
    EXPECT_EQ(report.max_in_flight, placed.max_in_flight);
  }
}

}  // namespace
}  // namespace sluice::verify_mutation_test
