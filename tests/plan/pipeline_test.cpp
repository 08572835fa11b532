// plan_pipeline() as a library calls it: options in, a proven plan out, no configuration.
#include <gtest/gtest.h>

#include "sluice/plan.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

ModelSpec model_of(const std::string& name) {
  return read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/models/" + name);
}

// llama_untied has 4 decoder layers.
std::string refusal(const PipelineOptions& options, const std::string& model = "llama_untied") {
  const Error error = test::error_of([&] { plan_pipeline(model_of(model), options); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
  return error.what();
}

constexpr const char* kOwn = "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n";

TEST(PlanPipelineTest, TakesAScheduleByNameOrKind) {
  const Plan named = plan_pipeline(model_of("llama_untied"),
                                   {.num_ranks = 2, .schedule = "zbv", .num_microbatches = 8});
  EXPECT_EQ(named.schedule.name, "ZBVZeroBubble");
  EXPECT_EQ(named.program.num_microbatches, 8);
  EXPECT_EQ(named.partition.stage_map.ranks(), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_TRUE(named.report.ok());
  const Plan of_kind = plan_pipeline(
      model_of("llama_untied"),
      {.num_ranks = 2, .schedule = ScheduleKind::kZBVZeroBubble, .num_microbatches = 8});
  EXPECT_EQ(plan_json(of_kind), plan_json(named));
}

TEST(PlanPipelineTest, WithoutOptionsPlansOneRankAndOneMicrobatch) {
  const Plan plan = plan_pipeline(model_of("llama_untied"), {});
  EXPECT_EQ(plan.program.num_ranks(), 1);
  EXPECT_EQ(plan.program.num_microbatches, 1);
  EXPECT_EQ(plan.schedule.name, "1F1B");
}

TEST(PlanPipelineTest, WithoutAScheduleTakesTheOneThatSuitsTheSplit) {
  const Plan plan =
      plan_pipeline(model_of("llama_untied"),
                    {.num_ranks = 2, .num_microbatches = 4, .partition = {.stages_per_rank = 2}});
  EXPECT_EQ(plan.schedule.name, "Interleaved1F1B");
  EXPECT_EQ(plan.notes, (std::vector<std::string>{"several stages a rank and no schedule named: "
                                                  "Interleaved1F1B is taken (schedule)"}));
}

TEST(PlanPipelineTest, AScheduleOfOnesOwnSaysHowManyRanksAndMicrobatches) {
  const Plan plan =
      plan_pipeline(model_of("llama_untied"),
                    {.schedule = "gpipe", .own_schedule = parse_schedule_csv(kOwn, "own.csv")});
  EXPECT_EQ(plan.program.num_ranks(), 2);
  EXPECT_EQ(plan.program.num_microbatches, 2);
  EXPECT_EQ(plan.notes, (std::vector<std::string>{
                            "schedule = \"gpipe\" is not used: the schedule is that of own.csv"}));
}

TEST(PlanPipelineTest, RefusesCountsThatAScheduleOfOnesOwnDoesNotHave) {
  const Schedule own = parse_schedule_csv(kOwn, "own.csv");
  EXPECT_EQ(refusal({.num_ranks = 3, .own_schedule = own}),
            "the schedule own.csv has 2 ranks, but num_ranks = 3; own_schedule; num_ranks = 2");
  EXPECT_EQ(refusal({.own_schedule = own, .num_microbatches = 4}),
            "the schedule own.csv has 2 microbatches, but num_microbatches = 4; own_schedule; "
            "num_microbatches = 2");
  EXPECT_EQ(refusal({.own_schedule = own, .partition = {.placement = Placement::kV}}),
            "own_schedule and stage_to_rank exclude each other; own_schedule; the schedule has its "
            "stages on ranks [0, 1]");
}

TEST(PlanPipelineTest, RefusesAScheduleThatCannotComplete) {
  const Schedule own = parse_schedule_csv("0F0,0B0\n1B0,1F0\n", "own.csv");
  EXPECT_THROW(plan_pipeline(model_of("llama_untied"), {.own_schedule = own}), RefusedSchedule);
}

TEST(PlanPipelineTest, ErrorsNameOptions) {
  EXPECT_EQ(refusal({.seq_len = 65}, "gpt2"),
            "seq_len = 65 is more than the model's 64 positions; seq_len; set seq_len to at most "
            "64");
  EXPECT_EQ(refusal({.microbatch_size = 0}),
            "microbatch_size = 0; microbatch_size; give at least 1");
  EXPECT_EQ(refusal({.num_ranks = 2, .num_microbatches = 0}),
            "the number of microbatches is 0; give at least 1");
  EXPECT_EQ(refusal({.num_ranks = 2, .partition = {.num_ranks = 4}}),
            "the partition is for 4 ranks, the pipeline has 2 ranks; partition; leave "
            "partition.num_ranks out");
  EXPECT_EQ(refusal({.num_ranks = 2,
                     .schedule = "Interleaved1F1B",
                     .partition = {.placement = Placement::kV}}),
            "the schedule Interleaved1F1B places its stages on ranks [0, 1, 0, 1], not "
            "[0, 1, 1, 0]; stage_to_rank; schedule \"ZBVZeroBubble\" or \"DualPipeV\", no "
            "placement, or a schedule of your own by own_schedule");
  EXPECT_EQ(refusal({.num_ranks = 2, .partition = {.split_points = {"layers.1"}}}),
            "unknown name 'layers.1' in the split points; partition; 'layers.1' is a name of "
            "convention torchtitan: set partition_convention to that, or write 'model.layers.1'");
}

TEST(PlanPipelineTest, WarnsOfSequencesThatTheModelWasNotMadeFor) {
  EXPECT_TRUE(plan_pipeline(model_of("llama_untied"), {.seq_len = 128}).warnings.empty());
  EXPECT_EQ(plan_pipeline(model_of("llama_untied"), {.seq_len = 129}).warnings,
            (std::vector<std::string>{"seq_len = 129 is more than the model's "
                                      "max_position_embeddings = 128: it was not made for "
                                      "positions beyond them"}));
}

TEST(PlanPipelineTest, PredictsEveryRank) {
  PipelineOptions options = {
      .num_ranks = 2, .schedule = "1F1B", .num_microbatches = 4, .seq_len = 32};
  const Plan plan = plan_pipeline(model_of("llama_untied"), options);
  ASSERT_EQ(plan.ranks.size(), 2u);
  EXPECT_EQ(plan.ranks[0].busy, 12);
  EXPECT_EQ(plan.ranks[0].finish, 15);
  EXPECT_EQ(plan.ranks[1].finish, 13);
  EXPECT_EQ(plan.ranks[0].peak_live, 2);
  EXPECT_EQ(plan.ranks[1].peak_live, 1);
  EXPECT_EQ(plan.ranks[0].memory.optimizer_bytes, 2 * plan.ranks[0].memory.parameter_bytes);
  options.optimizer = OptimizerKind::kSgd;
  EXPECT_EQ(plan_pipeline(model_of("llama_untied"), options).ranks[0].memory.optimizer_bytes, 0);
}

}  // namespace
}  // namespace sluice
