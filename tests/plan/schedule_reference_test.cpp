#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "sluice/error.h"
#include "sluice/parts/peers.h"
#include "sluice/schedule.h"
#include "support/reference_cases.h"

namespace sluice::schedule_reference_test {
namespace {

using testing::read_test_file;
using testing::reference_cases;

// Shapes that torch rejects and sluice accepts (docs/compatibility.md).
bool is_lifted(const std::string& schedule, const std::string& meaning) {
  return (schedule == "1F1B" && meaning == "fewer_microbatches_than_stages") ||
         (schedule.starts_with("Interleaved") && meaning == "microbatches_not_multiple_of_rounds");
}

ScheduleShape shape_of(const nlohmann::json& input) {
  return {.num_ranks = input.at("pp_size"),
          .stages_per_rank = input.at("stages_per_rank"),
          .num_microbatches = input.at("num_microbatches")};
}

Schedule make(const nlohmann::json& entry) {
  const auto& input = entry.at("input");
  return make_schedule(input.at("schedule").get<std::string>(), shape_of(input));
}

std::string joined(const std::vector<std::string>& rows) {
  std::string text;
  for (const std::string& row : rows) text += (row.empty() ? "\"\"" : row) + "\r\n";
  return text;
}

TEST(ScheduleReferenceTest, BuildsTheOrdersOfTorchCellForCell) {
  int built = 0;
  for (const auto& entry : reference_cases("schedules.json", "schedule")) {
    SCOPED_TRACE(entry.at("id"));
    const std::string name = entry.at("input").at("schedule");
    if (entry.contains("error")) {
      if (is_lifted(name, entry.at("error").at("meaning"))) {
        EXPECT_NO_THROW(make(entry));
      } else {
        EXPECT_THROW(make(entry), Error);
      }
      continue;
    }
    const auto& expect = entry.at("expect");
    const Schedule schedule = make(entry);
    EXPECT_EQ(schedule.name, name);
    EXPECT_EQ(schedule.num_stages(), expect.at("num_stages"));
    EXPECT_EQ(schedule.num_microbatches, entry.at("input").at("num_microbatches"));
    EXPECT_EQ(schedule.stage_map.ranks(), expect.at("stage_to_rank"));
    EXPECT_EQ(to_csv(schedule.rows), joined(expect.at("compute")));
    ++built;
  }
  EXPECT_GT(built, 100);
}

TEST(ScheduleReferenceTest, ComputesInTheOrderThatTorchWasSeenToExecute) {
  for (const auto& entry : reference_cases("schedules.json", "schedule")) {
    if (!entry.contains("expect") || !entry.at("expect").contains("executed_events")) continue;
    SCOPED_TRACE(entry.at("id"));
    const Schedule schedule = make(entry);
    const auto& events = entry.at("expect").at("executed_events");
    for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
      std::vector<Action> executed;
      for (std::string event : events.at(rank)) {
        if (!event.starts_with("do:") || event.ends_with("REDUCE_GRAD")) continue;
        event = event.substr(3);
        executed.push_back(parse_action(event.substr(0, event.find('+'))));
      }
      EXPECT_EQ(schedule.rows[rank], executed) << "rank " << rank;
    }
  }
}

TEST(ScheduleReferenceTest, ReadsAndWritesBothCsvFormatsOfTorchByteForByte) {
  const std::filesystem::path folder =
      std::filesystem::path(SLUICE_TEST_DATA) / "reference" / "schedules_csv";
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(file.path().filename());
    const std::string text =
        read_test_file("reference/schedules_csv/" + file.path().filename().string());
    const Schedule schedule = read_schedule_csv(file.path());
    EXPECT_EQ(to_csv(schedule.rows), text);
    ++files;
  }
  EXPECT_EQ(files, 20);
}

TEST(ScheduleReferenceTest, InfersStagesMicrobatchesAndPlacementFromItsOwnCsv) {
  for (const auto& entry : reference_cases("schedules.json", "schedule")) {
    if (!entry.contains("expect")) continue;
    SCOPED_TRACE(entry.at("id"));
    const Schedule made = make(entry);
    const Schedule read = parse_schedule_csv(to_csv(made.rows), "made.csv");
    EXPECT_EQ(read.num_ranks(), made.num_ranks());
    EXPECT_EQ(read.num_stages(), made.num_stages());
    EXPECT_EQ(read.num_microbatches, made.num_microbatches);
    EXPECT_EQ(read.stage_map.ranks(), made.stage_map.ranks());
    EXPECT_EQ(read.rows, made.rows);
  }
}

TEST(ScheduleReferenceTest, FindsSchedulesByTheNamesOfTorch) {
  for (const auto& entry : reference_cases("schedules.json", "get_schedule_class")) {
    SCOPED_TRACE(entry.at("id"));
    const std::string name = entry.at("input").at("name");
    const std::string known = entry.contains("expect") ? entry.at("expect").at("class") : "";
    if (known.empty() || known.starts_with("PipelineSchedule")) {
      EXPECT_THROW(find_schedule(name), Error);
      continue;
    }
    EXPECT_EQ("Schedule" + find_schedule(name).name, known);
    EXPECT_EQ(find_schedule(name).single_stage, entry.at("expect").at("single_stage"));
  }
}

TEST(ScheduleReferenceTest, ReadsActionTextAsTorchDoesButForIncompleteText) {
  for (const auto& entry : reference_cases("schedules.json", "action_from_text")) {
    SCOPED_TRACE(entry.at("id"));
    const std::string text = entry.at("input").at("text");
    if (entry.contains("error") || entry.contains("peer_hazard")) {
      EXPECT_THROW(parse_action(text), Error);
    } else if (entry.at("expect").at("action").is_null()) {
      EXPECT_EQ(parse_action(text), Action());
    } else {
      EXPECT_EQ(to_text(parse_action(text)), entry.at("expect").at("printed"));
    }
  }
}

TEST(ScheduleReferenceTest, PlacesStagesInLoopsAndVs) {
  const auto placement_of = [](const nlohmann::json& input) {
    return input.at("style") == "v" ? Placement::kV : Placement::kLoop;
  };
  for (const auto& entry : reference_cases("split_points.json", "stage_to_rank")) {
    SCOPED_TRACE(entry.at("id"));
    const auto& input = entry.at("input");
    EXPECT_EQ(
        make_stage_map(placement_of(input), input.at("pp_size"), input.at("num_stages")).ranks(),
        entry.at("expect").at("stage_to_rank"));
  }
  for (const auto& entry : reference_cases("split_points.json", "stage_ids_this_rank")) {
    SCOPED_TRACE(entry.at("id"));
    const auto& input = entry.at("input");
    const int ranks = input.at("pp_size"), stages = input.at("num_stages");
    if (entry.contains("error")) {
      // Like torch, a V placement may have any number of stages per rank. The V schedules reject
      // it.
      if (stages % ranks == 0) continue;
      EXPECT_THROW(make_stage_map(placement_of(input), ranks, stages), Error);
      continue;
    }
    const int rank = input.at("pp_rank");
    if (rank >= ranks) continue;  // the peer invents stages for a rank that does not exist
    EXPECT_EQ(make_stage_map(placement_of(input), ranks, stages).stages_of(rank),
              entry.at("expect").at("stages"));
  }
}

TEST(ScheduleReferenceTest, PlacesStagesAsTheScheduleNeeds) {
  for (const auto& entry : reference_cases("split_points.json", "stages_of_rank_for_schedule")) {
    SCOPED_TRACE(entry.at("id"));
    const auto& input = entry.at("input");
    const ScheduleInfo& info = find_schedule(input.at("schedule").get<std::string>());
    const int ranks = input.at("pp_degree"), stages = input.at("num_stages");
    if (entry.contains("error")) {
      EXPECT_THROW(make_stage_map(info, ranks, stages), Error);
    } else {
      EXPECT_EQ(make_stage_map(info, ranks, stages).stages_of(input.at("pp_rank")),
                entry.at("expect").at("stages"));
    }
  }
}

}  // namespace
}  // namespace sluice::schedule_reference_test
