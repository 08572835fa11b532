#include "sluice/schedule.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "base/text.h"
#include "sluice/error.h"

namespace sluice::schedule_test {
namespace {

std::string refusal(const std::string& name, const ScheduleShape& shape) {
  try {
    make_schedule(name, shape);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

std::vector<std::string> texts(const std::vector<Action>& row) {
  std::vector<std::string> result;
  for (const Action& action : row) result.push_back(to_text(action));
  return result;
}

TEST(ScheduleTableTest, EveryNameIsFoundInAnyCaseAndBelongsToOneSchedule) {
  std::set<std::string> seen;
  for (const ScheduleInfo& info : schedule_table()) {
    std::vector<std::string> names = info.aliases;
    for (const std::string& alias : names) EXPECT_EQ(alias, to_lower(alias));
    names.push_back(info.name);
    names.push_back("Schedule" + info.name);
    for (const std::string& name : names) {
      std::string upper = name;
      for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      EXPECT_EQ(find_schedule(name).name, info.name) << name;
      EXPECT_EQ(find_schedule(upper).name, info.name) << upper;
    }
    for (const std::string& alias : info.aliases) EXPECT_TRUE(seen.insert(alias).second) << alias;
    EXPECT_TRUE(seen.insert(to_lower(info.name)).second) << info.name;
    EXPECT_EQ(make_schedule(info.name, {2, 0, 4}).name, info.name);
  }
  EXPECT_EQ(schedule_table().size(), 7u);
}

TEST(ScheduleTableTest, TakesTheNamesOfEveryPeer) {
  for (const auto& [alias, name] : std::vector<std::pair<std::string, std::string>>{
           {"ScheduleInterleaved1F1B", "Interleaved1F1B"},  // torch
           {"interleaved_1f1b", "Interleaved1F1B"},         // NeMo
           {"dfs", "Interleaved1F1B"},
           {"looped_bfs", "LoopedBFS"},
           {"v_schedule", "ZBVZeroBubble"},
           {"zero_bubble", "InterleavedZeroBubble"},
           {"Train1F1BSchedule", "1F1B"},  // NeuronX
           {"TrainInterleavedSchedule", "Interleaved1F1B"},
           {"forward_backward_pipelining_with_interleaving", "Interleaved1F1B"},  // Megatron
           {"forward_backward_pipelining_without_interleaving", "1F1B"},
           {"ZB-H1", "InterleavedZeroBubble"}}) {
    EXPECT_EQ(find_schedule(alias).name, name) << alias;
  }
}

TEST(ScheduleTableTest, AnswersATypoWithTheNearestName) {
  EXPECT_EQ(refusal("1F1", {}), "unknown schedule '1F1'; did you mean '1F1B'?");
  EXPECT_NE(refusal("DualPipe", {}).find("two copies of the weights; use 'DualPipeV'"),
            std::string::npos);
  EXPECT_EQ(refusal("interleaved_1f1", {}),
            "unknown schedule 'interleaved_1f1'; did you mean 'Interleaved1F1B'?");
  EXPECT_EQ(refusal("interleaved", {}),
            "unknown schedule 'interleaved'; one of: GPipe, 1F1B, Interleaved1F1B, LoopedBFS, "
            "InterleavedZeroBubble, ZBVZeroBubble, DualPipeV");
  EXPECT_NE(refusal("", {}).find("unknown schedule ''"), std::string::npos);
  EXPECT_NE(refusal(std::string(100000, 'x'), {}).find("one of: GPipe"), std::string::npos);
}

TEST(ScheduleTableTest, RefusesTorchsBaseClassesByName) {
  for (const char* name : {"PipelineScheduleMulti", "pipelineschedulesingle"}) {
    EXPECT_NE(
        refusal(name, {}).find("is a base class of torch's schedules, not a schedule; one of"),
        std::string::npos);
  }
}

TEST(MakeScheduleTest, RefusesCountsBelowOneAndOutOfProportion) {
  EXPECT_EQ(refusal("1F1B", {0, 1, 4}), "the number of ranks is 0; give at least 1");
  EXPECT_EQ(refusal("1F1B", {2, 1, 0}), "the number of microbatches is 0; give at least 1");
  EXPECT_EQ(refusal("Interleaved1F1B", {2, -1, 4}),
            "the number of stages per rank is -1; give at least 1");
  for (const ScheduleShape& shape :
       {ScheduleShape{1, 1, 2147483647}, ScheduleShape{4, 1 << 30, 1}}) {
    EXPECT_NE(refusal("LoopedBFS", shape).find("use fewer microbatches"), std::string::npos);
  }
  for (const ScheduleShape& shape :
       {ScheduleShape{2147483647, 2147483647, 2147483647}, ScheduleShape{1 << 25, 1, 1}}) {
    EXPECT_NE(refusal("LoopedBFS", shape).find("give at most 65536 ranks"), std::string::npos);
  }
}

TEST(MakeScheduleTest, RefusesStagesPerRankThatTheScheduleCannotHave) {
  EXPECT_EQ(refusal("1F1B", {2, 2, 4}),
            "1F1B runs exactly 1 stage per rank, got 2; give 1 stage per rank, or use "
            "Interleaved1F1B");
  EXPECT_NE(refusal("GPipe", {2, 3, 4}), "");
  EXPECT_EQ(refusal("zbv", {2, 1, 4}),
            "ZBVZeroBubble runs exactly 2 stages per rank, got 1; give 2 stages per rank, or use "
            "Interleaved1F1B");
  EXPECT_NE(refusal("DualPipeV", {2, 3, 8}), "");
}

TEST(MakeScheduleTest, GivesEveryScheduleTheStagesItNeeds) {
  for (const ScheduleInfo& info : schedule_table()) {
    const Schedule schedule = make_schedule(info.name, {3, 0, 8});
    EXPECT_EQ(schedule.num_stages(), info.single_stage ? 3 : 6) << info.name;
    EXPECT_EQ(schedule.rows.size(), 3u);
  }
}

TEST(OneForwardOneBackwardTest, RunsFewerMicrobatchesThanStages) {
  const Schedule schedule = make_schedule("1F1B", {4, 1, 2});
  EXPECT_EQ(texts(schedule.rows[0]), (std::vector<std::string>{"0F0", "0F1", "0B0", "0B1"}));
  EXPECT_EQ(texts(schedule.rows[2]), (std::vector<std::string>{"2F0", "2F1", "2B0", "2B1"}));
  EXPECT_EQ(texts(schedule.rows[3]), (std::vector<std::string>{"3F0", "3B0", "3F1", "3B1"}));
}

TEST(Interleaved1F1BTest, SpreadsARemainderOverTheFirstRounds) {
  // 2 ranks, 7 microbatches: 3 rounds of 3, 2 and 2.
  const Schedule schedule = make_schedule("Interleaved1F1B", {2, 2, 7});
  std::vector<std::string> forwards;
  for (const std::string& text : texts(schedule.rows[0])) {
    if (text.find('F') != std::string::npos) forwards.push_back(text);
  }
  EXPECT_EQ(forwards, (std::vector<std::string>{"0F0", "0F1", "0F2", "2F0", "2F1", "2F2", "0F3",
                                                "0F4", "2F3", "2F4", "0F5", "0F6", "2F5", "2F6"}));
}

TEST(DualPipeVTest, RefusesFewerMicrobatchesThanStages) {
  EXPECT_EQ(refusal("DualPipeV", {4, 2, 7}),
            "DualPipeV needs at least as many microbatches as stages, 8, but got 7; use more "
            "microbatches, or ZBVZeroBubble");
  EXPECT_EQ(refusal("DualPipeV", {4, 2, 8}), "");
}

TEST(StageToRankTest, ReadsWordsAndLists) {
  EXPECT_EQ(parse_stage_to_rank("loop", 2, 4), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(parse_stage_to_rank("V", 2, 4), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(parse_stage_to_rank("0,1,1,0", 0, 0), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(parse_stage_to_rank("7", 0, 0), (std::vector<int>{7}));
  for (const char* text : {"", "w", "0,", ",0", "0,,1", "0 1", "-1", "0,1x", "99999999999"}) {
    EXPECT_THROW(parse_stage_to_rank(text, 2, 4), Error) << text;
  }
}

TEST(StageToRankTest, RefusesStagesThatDoNotDivideOverRanks) {
  EXPECT_THROW(make_stage_map(Placement::kLoop, 2, 7), Error);
  EXPECT_THROW(make_stage_map(Placement::kV, 2, 0), Error);
  EXPECT_THROW(make_stage_map(Placement::kLoop, 0, 4), Error);
  EXPECT_EQ(make_stage_map(Placement::kV, 2, 6).ranks(), (std::vector<int>{0, 1, 1, 0, 0, 1}));
}

// Each build takes less than half a second. A builder with quadratic work would take most of a
// minute.
TEST(MakeScheduleTest, BuildsLargeSchedulesInLinearTime) {
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, ScheduleShape>>{{"Interleaved1F1B", {64, 4, 4096}},
                                                          {"InterleavedZeroBubble", {64, 4, 4096}},
                                                          {"ZBVZeroBubble", {128, 2, 2048}},
                                                          {"DualPipeV", {128, 2, 2048}}}) {
    const auto start = std::chrono::steady_clock::now();
    const Schedule schedule = make_schedule(name, shape);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), 20) << name;
    EXPECT_EQ(schedule.num_ranks(), shape.num_ranks);
  }
}

TEST(ScheduleTest, KindsAreInTheOrderOfTheTableAndHaveItsNames) {
  const std::vector<ScheduleInfo>& table = schedule_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(table[i].kind), i);
    EXPECT_EQ(ScheduleName(table[i].kind).text(), table[i].name);
    EXPECT_EQ(ScheduleName(table[i].aliases.front()).kind(), table[i].kind);
  }
  EXPECT_EQ(ScheduleName("zerobubble"), ScheduleName(ScheduleKind::kInterleavedZeroBubble));
  EXPECT_EQ(ScheduleName("gPIPE").text(), "gPIPE");
}

}  // namespace
}  // namespace sluice::schedule_test
