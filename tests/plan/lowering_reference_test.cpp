// Compares our lowering with torch's lowering of the same orders (tests/reference/schedules.json).
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/passes/passes.h"
#include "sluice/program.h"
#include "sluice/verify.h"
#include "support/programs.h"
#include "support/reference_cases.h"

namespace sluice::lowering_reference_test {
namespace {

using testing::program_of;
using testing::reference_cases;
using testing::row_of;
using testing::rows_of;

// torch takes adjacent RESHARDs from an unordered set, so sort them before comparing.
std::string with_sorted_reshards(const std::string& text) {
  std::vector<Action> row = row_of(text);
  const auto is_reshard = [](const Action& action) { return action.kind == ActionKind::kReshard; };
  for (auto first = row.begin(); first != row.end();) {
    first = std::find_if(first, row.end(), is_reshard);
    const auto last = std::find_if_not(first, row.end(), is_reshard);
    std::sort(first, last, [](const Action& a, const Action& b) { return a.stage < b.stage; });
    first = last;
  }
  return testing::text_of(row);
}

std::vector<std::string> normalized(std::vector<std::string> rows) {
  std::transform(rows.begin(), rows.end(), rows.begin(), with_sorted_reshards);
  return rows;
}

Schedule schedule_of(const nlohmann::json& input) {
  return make_schedule(input.at("schedule").get<std::string>(),
                       {.num_ranks = input.at("pp_size"),
                        .stages_per_rank = input.at("stages_per_rank"),
                        .num_microbatches = input.at("num_microbatches")});
}

class LoweringReferenceTest : public ::testing::Test {
 protected:
  int compare(const char* key, const LowerOptions& options) {
    int compared = 0;
    for (const auto& entry : reference_cases("schedules.json", "schedule")) {
      if (!entry.contains("expect") || !entry["expect"].contains(key)) continue;
      SCOPED_TRACE(entry.at("id"));
      const Program program = lower(schedule_of(entry.at("input")), options);
      EXPECT_EQ(normalized(rows_of(program)), normalized(entry["expect"][key]));
      EXPECT_TRUE(verify(program).ok());
      ++compared;
    }
    return compared;
  }
};

TEST_F(LoweringReferenceTest, AddsTransfersAsTorch) {
  EXPECT_GT(compare("send_recv_only", {}), 90);
}

TEST_F(LoweringReferenceTest, LowersAsTorch) {
  LowerOptions options;
  options.shard_parameters = options.reduce_gradients = true;
  EXPECT_GT(compare("lowered", options), 90);
}

// Builds the input program of a single-pass case. Rows may have idle slots, and a case may hold
// just one row.
Program program_of_case(const nlohmann::json& input) {
  const std::vector<std::string> rows =
      input.contains("rows") ? input.at("rows").get<std::vector<std::string>>()
                             : std::vector<std::string>{input.at("row").get<std::string>()};
  Program program = input.contains("stage_to_rank")
                        ? program_of(rows, input.at("stage_to_rank").get<std::vector<int>>())
                        : program_of(rows);
  program.num_microbatches = input.value("num_microbatches", program.num_microbatches);
  return program;
}

Program without_idle_slots(Program program) {
  for (std::vector<Action>& row : program.ranks) {
    std::erase_if(row, [](const Action& action) { return action.kind == ActionKind::kIdle; });
  }
  return program;
}

template <typename Pass>
void expect_as_torch(const char* function, Pass&& pass) {
  for (const auto& entry : reference_cases("schedules.json", function)) {
    SCOPED_TRACE(entry.at("id"));
    const auto& expect = entry.at("expect");
    const std::vector<std::string> expected =
        expect.contains("rows") ? expect.at("rows").get<std::vector<std::string>>()
                                : std::vector<std::string>{expect.at("row").get<std::string>()};
    EXPECT_EQ(normalized(rows_of(pass(entry.at("input")))), normalized(expected));
  }
}

TEST_F(LoweringReferenceTest, MergesInputAndWeightAsTorch) {
  expect_as_torch("merge_input_and_weight_backward", [](const nlohmann::json& input) {
    return merge_backward(without_idle_slots(program_of_case(input)));
  });
}

TEST_F(LoweringReferenceTest, UnshardsAndReshardsAsTorch) {
  expect_as_torch("add_unshard_reshard", [](const nlohmann::json& input) {
    return add_unshard_reshard(without_idle_slots(program_of_case(input)),
                               input.at("max_active_stages"));
  });
}

TEST_F(LoweringReferenceTest, ReducesGradientsAsTorch) {
  expect_as_torch("add_reduce_grad", [](const nlohmann::json& input) {
    return add_reduce_grad(without_idle_slots(program_of_case(input)));
  });
}

// Idle slots stay in, because torch's sweep counts them.
TEST_F(LoweringReferenceTest, AddsTransfersToOrdersOfItsOwnAsTorch) {
  expect_as_torch("add_send_recv", [](const nlohmann::json& input) {
    return add_transfers(program_of_case(input));
  });
}

TEST_F(LoweringReferenceTest, AcceptsAndRefusesSchedulesAsTorchButForItsHazards) {
  int accepted = 0, refused = 0;
  for (const auto& entry : reference_cases("schedules.json", "validate_schedule")) {
    SCOPED_TRACE(entry.at("id"));
    const Program program = program_of_case(entry.at("input"));
    EXPECT_EQ(program.num_ranks(), entry.at("input").at("pp_size"));
    const bool holds = entry.contains("expect") && !entry.contains("peer_hazard");
    EXPECT_EQ(verify(program).ok(), holds);
    if (holds) {
      EXPECT_EQ(program.stage_map.ranks(), entry.at("expect").at("stage_to_rank"));
    }
    ++(holds ? accepted : refused);
  }
  EXPECT_GE(accepted, 2);
  EXPECT_GE(refused, 3);
}

}  // namespace
}  // namespace sluice::lowering_reference_test
