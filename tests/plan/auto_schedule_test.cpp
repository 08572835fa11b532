#include "plan/choose/best.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plan/passes/passes.h"
#include "sluice/plan.h"
#include "support/expect_error.h"

namespace sluice::auto_schedule_test {
namespace {

ModelSpec llama() {
  return read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/models/llama_untied");
}

PipelineOptions some_options(int num_microbatches = 8) {
  PipelineOptions options{.num_ranks = 2, .schedule = "auto"};
  options.num_microbatches = num_microbatches;
  options.balance = Balance::kCost;
  options.seq_len = 64;
  return options;
}

std::int64_t peak_of(const Plan& plan) {
  std::int64_t peak = 0;
  for (const RankPrediction& rank : plan.ranks) peak = std::max(peak, rank.memory.total_bytes());
  return peak;
}

TEST(AutoScheduleTest, NoNamedScheduleIsFaster) {
  const Plan plan = plan_pipeline(llama(), some_options());
  EXPECT_TRUE(plan.report.ok());
  EXPECT_EQ(detail::order_of_sums_violation(plan.program), "");
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const int stages : {1, 2}) {
      PipelineOptions options = some_options();
      options.schedule = {};
      options.schedule = schedule.kind;
      options.partition.stages_per_rank = stages;
      try {
        const Plan other = plan_pipeline(llama(), options);
        if (!detail::order_of_sums_violation(other.program).empty()) continue;
        EXPECT_LE(plan.simulation.makespan, other.simulation.makespan * (1 + 1e-9))
            << schedule.name << " with " << stages;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
      }
    }
  }
}

TEST(AutoScheduleTest, SaysWhatItLookedAtAndWhyNot) {
  const Plan plan = plan_pipeline(llama(), some_options());
  int taken = 0;
  bool has_bfs = false;
  for (const ScheduleCandidate& each : plan.candidates) {
    taken += each.taken ? 1 : 0;
    if (each.taken) {
      EXPECT_EQ(each.name, plan.schedule.name);
      EXPECT_EQ(each.step, plan.simulation.makespan);
      EXPECT_EQ(each.peak_bytes, peak_of(plan));
    }
    if (each.name == "LoopedBFS") {
      has_bfs = true;
      EXPECT_NE(each.refusal.find("do not add up in the order of the microbatches"),
                std::string::npos)
          << each.refusal;
    }
  }
  EXPECT_EQ(taken, 1);
  EXPECT_TRUE(has_bfs);
  const std::string text = describe_plan(plan, {});
  EXPECT_NE(text.find("auto: " + plan.schedule.name), std::string::npos) << text;
  const auto json = nlohmann::json::parse(plan_json(plan)).at("auto");
  EXPECT_EQ(json.at("candidates").size(), plan.candidates.size());
  EXPECT_EQ(json.at("schedule"), plan.schedule.name);
}

TEST(AutoScheduleTest, TakesTheSimplerOfEqualOnes) {
  // A single rank never idles, so the choice prefers fewer stages and then less memory than GPipe.
  PipelineOptions options = some_options();
  options.num_ranks = 1;
  const Plan plan = plan_pipeline(llama(), options);
  EXPECT_EQ(plan.partition.num_stages(), 1);
  EXPECT_EQ(plan.schedule.name, "1F1B");
}

TEST(AutoScheduleTest, KeepsToTheMemoryThatThereIs) {
  PipelineOptions options = some_options(16);
  const Plan free = plan_pipeline(llama(), options);
  std::int64_t least = peak_of(free), most = least;
  for (const ScheduleCandidate& each : free.candidates) {
    if (!each.refusal.empty()) continue;
    least = std::min(least, each.peak_bytes);
    most = std::max(most, each.peak_bytes);
  }
  ASSERT_LT(least, most);
  options.memory_per_rank = least;
  const Plan small = plan_pipeline(llama(), options);
  EXPECT_LE(peak_of(small), least);
  EXPECT_GE(small.simulation.makespan, free.simulation.makespan * (1 - 1e-9));
  options.memory_per_rank = least / 8;
  const Error error = test::error_of([&] { plan_pipeline(llama(), options); });
  EXPECT_EQ(error.kind(), ErrorKind::kMemory) << error.what();
}

// Returns the bytes in a message "...: the smallest needs 1.50MiB on a rank, ...", plus that many
// hundredths of the unit.
std::int64_t need_of(const std::string& message, int hundredths) {
  const std::string before = "the smallest needs ";
  const std::size_t at = message.find(before);
  EXPECT_NE(at, std::string::npos) << message;
  std::size_t length = 0;
  const double number = std::stod(message.substr(at + before.size()), &length);
  const char unit = message.at(at + before.size() + length);
  EXPECT_TRUE(unit == 'K' || unit == 'M') << message;
  return static_cast<std::int64_t>((number + hundredths / 100.0) *
                                   (unit == 'K' ? 1 << 10 : 1 << 20));
}

TEST(AutoScheduleTest, RefusesWithTheSmallestNeedOfItsSearch) {
  for (const Balance balance : {Balance::kCost, Balance::kEven}) {
    PipelineOptions options = some_options(16);
    options.balance = balance;
    options.memory_per_rank = 1;
    const std::string message = test::message_of([&] { plan_pipeline(llama(), options); });
    options.memory_per_rank = need_of(message, 0);
    EXPECT_LE(peak_of(plan_pipeline(llama(), options)), *options.memory_per_rank);
    options.memory_per_rank = need_of(message, -1);
    EXPECT_EQ(test::message_of([&] { plan_pipeline(llama(), options); }).substr(0, 60),
              message.substr(0, 60));
  }
}

TEST(AutoScheduleTest, ChoosesTheSameEveryTime) {
  const Plan first = plan_pipeline(llama(), some_options());
  const Plan again = plan_pipeline(llama(), some_options());
  EXPECT_EQ(plan_json(first), plan_json(again));
  EXPECT_EQ(first.program.ranks, again.program.ranks);
}

TEST(AutoScheduleTest, RefusesAScheduleBesideIt) {
  PipelineOptions options = some_options();
  options.schedule.name = ScheduleKind::k1F1B;
  EXPECT_NE(test::message_of([&] {
              plan_pipeline(llama(), options);
            }).find("`schedule.is_auto` and `schedule.name` exclude each other"),
            std::string::npos);
}

TEST(AutoScheduleTest, TakesTheStagesThatAreAskedFor) {
  PipelineOptions options = some_options();
  options.partition.stages_per_rank = 1;
  EXPECT_EQ(plan_pipeline(llama(), options).partition.stages_per_rank(), 1);
}

TEST(OrderOfSumsTest, FindsAStageWhoseGradientsAddUpInAnotherOrder) {
  const auto of = [](const char* name) {
    return detail::order_of_sums_violation(
        to_program(make_schedule(name, {.num_ranks = 2, .num_microbatches = 4})));
  };
  for (const char* name : {"GPipe", "1F1B", "Interleaved1F1B", "InterleavedZeroBubble"})
    EXPECT_EQ(of(name), "") << name;
  EXPECT_NE(of("LoopedBFS"), "");
  const Program split = to_program(parse_schedule_csv("0F0,0F1,0I0,0I1,0W1,0W0\n", "own.csv"));
  EXPECT_EQ(detail::order_of_sums_violation(split),
            "gradients of stage 0 do not add up in the order of the microbatches: '0W0' "
            "after microbatch 1");
}

}  // namespace
}  // namespace sluice::auto_schedule_test
