// Calls plan_pipeline() like a library user: options in, a proven plan out, no configuration file.
#include <gtest/gtest.h>

#include "sluice/model_spec.h"
#include "sluice/plan.h"
#include "support/expect_error.h"

namespace sluice::pipeline_test {
namespace {

ModelSpec model_of(const std::string& name) {
  // Counts activations as LibTorch's unfused operators keep them.
  return read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/models/" + name,
                         {.fused = false});
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

TEST(PlanPipelineTest, WarnsOfRanksWithoutANumberOfMicrobatches) {
  const auto warnings = [](PipelineOptions options) {
    options.seq_len = 64;
    return plan_pipeline(model_of("llama_untied"), options).warnings;
  };
  EXPECT_EQ(
      warnings({.num_ranks = 4}),
      std::vector<std::string>{"`num_microbatches` is not given, so a step has one microbatch and "
                               "the 4 ranks work one after the other: give at least 4"});
  EXPECT_TRUE(warnings({.num_ranks = 4, .num_microbatches = 1}).empty());
  EXPECT_TRUE(warnings({.num_ranks = 1}).empty());
  EXPECT_TRUE(warnings({.schedule = parse_schedule_csv(kOwn, "own.csv")}).empty());
}

std::string row_text(const Plan& plan, int rank) {
  std::string text;
  for (const Action& action : plan.program.ranks[static_cast<std::size_t>(rank)])
    text += (text.empty() ? "" : " ") + to_text(action);
  return text;
}

// Layers 2 and 3 are on stage 1 of two.
const std::vector<std::string> kUpperHalf = {"model.layers.2.*", "model.layers.3.*",
                                             "model.norm.weight", "lm_head.weight"};

TEST(PlanPipelineTest, WhatIsFrozenLeavesTheProgramAndTheMemory) {
  PipelineOptions options{.num_ranks = 2, .num_microbatches = 2, .step_end = StepEnd::kUpdate};
  const Plan all = plan_pipeline(model_of("llama_untied"), options);
  options.trainable = kUpperHalf;
  const Plan half = plan_pipeline(model_of("llama_untied"), options);
  EXPECT_EQ(row_text(half, 0), "0F0 0SEND_F0 0F1 0SEND_F1 REDUCE_LOSS REDUCE_NORM OPTIMIZER_STEP");
  EXPECT_EQ(row_text(half, 1),
            "1RECV_F0 1F0 1RECV_F1 1B0 1F1 1B1 1PARTIAL_NORM REDUCE_LOSS REDUCE_NORM 1UPDATE");
  EXPECT_TRUE(half.report.ok());
  EXPECT_LT(half.simulation.makespan, all.simulation.makespan);
  EXPECT_EQ(half.ranks[0].peak_live, 0);
  EXPECT_EQ(half.notes, (std::vector<std::string>{"nothing up to stage 0 is trained: no backward "
                                                  "there, and no gradient is sent there"}));
  const RankMemory &lower = half.ranks[0].memory, &upper = half.ranks[1].memory;
  EXPECT_EQ(lower.parameter_bytes, all.ranks[0].memory.parameter_bytes);
  EXPECT_EQ(lower.gradient_bytes + lower.optimizer_bytes + lower.activation_bytes, 0);
  EXPECT_GT(lower.running_bytes, 0);
  EXPECT_EQ(upper.held_bytes(), all.ranks[1].memory.held_bytes());
}

TEST(PlanPipelineTest, AFrozenStageBetweenTrainedOnesPassesGradientsOn) {
  const Plan plan =
      plan_pipeline(model_of("llama_untied"), {.num_ranks = 2,
                                               .num_microbatches = 1,
                                               .step_end = StepEnd::kUpdate,
                                               .trainable = {"model.layers.0.*_proj.weight"}});
  EXPECT_EQ(row_text(plan, 0),
            "0F0 0SEND_F0 0RECV_B0 0B0 0PARTIAL_NORM REDUCE_LOSS REDUCE_NORM 0UPDATE");
  EXPECT_EQ(row_text(plan, 1), "1RECV_F0 1F0 1I0 1SEND_B0 REDUCE_LOSS REDUCE_NORM OPTIMIZER_STEP");
  EXPECT_EQ(plan.ranks[1].memory.gradient_bytes + plan.ranks[1].memory.optimizer_bytes, 0);
  EXPECT_EQ(plan.notes, (std::vector<std::string>{"nothing of stage 1 is trained: it passes "
                                                  "gradients on, without W"}));
}

TEST(PlanPipelineTest, AnOwnScheduleLosesTheSame) {
  const Plan plan =
      plan_pipeline(model_of("llama_untied"), {.schedule = parse_schedule_csv(kOwn, "own.csv"),
                                               .step_end = StepEnd::kUpdate,
                                               .trainable = kUpperHalf});
  EXPECT_EQ(row_text(plan, 0), "0F0 0SEND_F0 0F1 0SEND_F1 REDUCE_LOSS REDUCE_NORM OPTIMIZER_STEP");
}

TEST(PlanPipelineTest, ATiedParameterTrainsUnderAnyOfItsNames) {
  for (const char* name : {"lm_head.weight", "model.embed_tokens.weight"}) {
    const Plan plan = plan_pipeline(model_of("llama_tied"), {.num_ranks = 2, .trainable = {name}});
    EXPECT_EQ(plan.program.tie_groups.size(), 1U) << name;
    EXPECT_EQ(plan.partition.stages[0].backward, StageBackward::kFull) << name;
  }
  const Plan frozen =
      plan_pipeline(model_of("llama_tied"), {.num_ranks = 2, .trainable = {"*norm*"}});
  EXPECT_TRUE(frozen.program.tie_groups.empty());
}

TEST(PlanPipelineTest, RefusesPatternsThatMatchNothingAndAModelWithoutAnythingToTrain) {
  EXPECT_EQ(
      refusal({.trainable = {"*norm*", "*.q_porj.*"}}),
      "`trainable`: '*.q_porj.*' matches no parameter; `trainable`; did you mean '*q_proj*'?");
  EXPECT_EQ(refusal({.trainable = {"lm_head.wieght"}}),
            "`trainable`: 'lm_head.wieght' matches no parameter; `trainable`; did you mean "
            "'lm_head.weight'?");
  EXPECT_EQ(refusal({.trainable = {}}),
            "`trainable` = [] freezes every parameter; `trainable`; name what to train, such as "
            "\"*norm*\"");
  const Error error =
      test::error_of([] { plan_pipeline(model_spec_of_blocks(4), {.trainable = {"*.bias"}}); });
  EXPECT_NE(std::string(error.what()).find("requires_grad in LayerSpec::make"), std::string::npos);
}

// Layers a and b write values that c, on the next stage, joins.
ModelSpec model_with_a_skip(bool a_trains, bool b_trains) {
  ModelSpec model;
  model.inputs = {{"x", {kMicrobatchRows, 4}}};
  const auto add = [&](const char* name, std::vector<std::string> reads, const char* writes,
                       bool trains) {
    LayerInfo& layer = model.layers.emplace_back();
    layer.name = name;
    layer.reads = std::move(reads);
    layer.writes = {{writes, {kMicrobatchRows, 4}}};
    layer.parameters_known = true;
    if (trains) layer.parameters = {{std::string(name) + ".weight", {4}, {}}};
  };
  add("a", {"x"}, "skip", a_trains);
  add("b", {"x"}, "hidden", b_trains);
  add("between", {"hidden"}, "hidden", false);
  add("c", {"hidden", "skip"}, "hidden", true);
  return model;
}

TEST(PlanPipelineTest, GradientsFollowTheValuesThatHoldSomethingTrained) {
  const PipelineOptions options{.num_ranks = 4};
  const auto backwards = [&](bool a_trains, bool b_trains) {
    std::vector<StageBackward> result;
    const Plan plan = plan_pipeline(model_with_a_skip(a_trains, b_trains), options);
    for (const StageContent& stage : plan.partition.stages) result.push_back(stage.backward);
    EXPECT_TRUE(plan.report.ok());
    return result;
  };
  using enum StageBackward;
  EXPECT_EQ(backwards(false, false), (std::vector{kNone, kNone, kNone, kWeights}));
  EXPECT_EQ(backwards(false, true), (std::vector{kNone, kWeights, kInput, kFull}));
  EXPECT_EQ(backwards(true, false), (std::vector{kFull, kInput, kInput, kFull}));
}

TEST(PlanPipelineTest, ABackwardOfWeightsAloneCostsNoI) {
  const Plan plan = plan_pipeline(model_with_a_skip(false, true), {.num_ranks = 4});
  ASSERT_EQ(plan.partition.stages[1].backward, StageBackward::kWeights);
  EXPECT_EQ(plan.costs.per_stage[1].backward, 1);
  EXPECT_EQ(plan.costs.per_stage[3].backward, 2);
  EXPECT_EQ(plan.simulation.per_rank(&RankTimeline::busy), (std::vector<double>{1, 2, 2, 3}));
  const Plan twice = plan_pipeline(
      model_with_a_skip(false, true),
      {.num_ranks = 4, .activation_checkpoint = {ActivationCheckpoint::kLayers, {"b"}}});
  EXPECT_EQ(twice.costs.per_stage[1].backward, 2);
}

TEST(PlanPipelineTest, LayersThatRunTwiceCostTimeAndSaveMemory) {
  PipelineOptions options{.num_ranks = 2, .num_microbatches = 4};
  const Plan plain = plan_pipeline(model_of("llama_untied"), options);
  options.activation_checkpoint = ActivationCheckpoint::kFull;
  const Plan twice = plan_pipeline(model_of("llama_untied"), options);
  EXPECT_EQ(row_text(twice, 0), row_text(plain, 0));
  EXPECT_LT(twice.ranks[0].memory.activation_bytes, plain.ranks[0].memory.activation_bytes / 4);
  EXPECT_LT(twice.ranks[0].memory.total_bytes(), plain.ranks[0].memory.total_bytes());
  EXPECT_EQ(twice.partition.stages[0].recomputed, (std::vector<int>{1, 2}));
  EXPECT_EQ(twice.costs.per_stage[0].backward_input, 2.0);
  EXPECT_GT(twice.simulation.makespan, plain.simulation.makespan);

  options.activation_checkpoint = {ActivationCheckpoint::kLayers, {"model.layers.0"}};
  const Plan one = plan_pipeline(model_of("llama_untied"), options);
  EXPECT_EQ(one.partition.stages[0].recomputed, (std::vector<int>{1}));
  EXPECT_EQ(one.costs.per_stage[0].backward, 2.5);
  EXPECT_EQ(one.notes,
            (std::vector<std::string>{"`activation_checkpoint`: no layer of stage 1 runs "
                                      "again"}));
}

TEST(PlanPipelineTest, RefusesToRunLayersTwiceThatAreNotThere) {
  using Which = ActivationCheckpoint;
  EXPECT_EQ(
      refusal({.activation_checkpoint = {Which::kLayers, {"model.layer.1"}}}),
      "`activation_checkpoint`: no layer is named 'model.layer.1'; `activation_checkpoint`; did "
      "you mean 'model.layers.1'?");
  EXPECT_EQ(
      refusal({.activation_checkpoint = {Which::kLayers, {}}}),
      "`activation_checkpoint` is an empty list; `activation_checkpoint`; name layers, or write "
      "\"none\" or \"full\"");
  EXPECT_NE(refusal({.activation_checkpoint = {Which::kClasses, {"Block"}}})
                .find("classes are not known before they are made"),
            std::string::npos);
}

TEST(PlanPipelineTest, WithoutAScheduleTakesTheOneThatSuitsTheSplit) {
  const Plan plan =
      plan_pipeline(model_of("llama_untied"),
                    {.num_ranks = 2, .num_microbatches = 4, .partition = {.stages_per_rank = 2}});
  EXPECT_EQ(plan.schedule.name, "Interleaved1F1B");
  EXPECT_EQ(plan.notes, (std::vector<std::string>{"several stages a rank and no schedule named: "
                                                  "Interleaved1F1B is taken (`schedule`)"}));
}

TEST(PlanPipelineTest, AScheduleOfOnesOwnSaysHowManyRanksAndMicrobatches) {
  ScheduleChoice choice = "gpipe";
  choice.own = parse_schedule_csv(kOwn, "own.csv");
  const Plan plan = plan_pipeline(model_of("llama_untied"), {.schedule = choice});
  EXPECT_EQ(plan.program.num_ranks(), 2);
  EXPECT_EQ(plan.program.num_microbatches, 2);
  EXPECT_EQ(plan.notes,
            (std::vector<std::string>{
                "`schedule` = \"gpipe\" is not used: the schedule comes from own.csv"}));
}

TEST(PlanPipelineTest, RefusesCountsThatAScheduleOfOnesOwnDoesNotHave) {
  const Schedule own = parse_schedule_csv(kOwn, "own.csv");
  EXPECT_EQ(
      refusal({.num_ranks = 3, .schedule = own}),
      "the schedule own.csv has 2 ranks, but `num_ranks` = 3; `schedule.own`; set `num_ranks` = 2");
  EXPECT_EQ(refusal({.schedule = own, .num_microbatches = 4}),
            "the schedule own.csv has 2 microbatches, but `num_microbatches` = 4; `schedule.own`; "
            "set `num_microbatches` = 2");
  EXPECT_EQ(refusal({.schedule = own, .partition = {.placement = Placement::kV}}),
            "`schedule.own` and `stage_to_rank` exclude each other; `schedule.own`; leave "
            "`stage_to_rank` out: the schedule places its stages on ranks [0, 1]");
}

TEST(PlanPipelineTest, RefusesAScheduleThatCannotComplete) {
  const Schedule own = parse_schedule_csv("0F0,0B0\n1B0,1F0\n", "own.csv");
  EXPECT_THROW(plan_pipeline(model_of("llama_untied"), {.schedule = own}), RefusedSchedule);
}

TEST(PlanPipelineTest, ErrorsNameOptions) {
  EXPECT_EQ(
      refusal({.seq_len = 65}, "gpt2"),
      "`seq_len` = 65 is more than the model's 64 positions; `seq_len`; set `seq_len` to at most "
      "64");
  EXPECT_EQ(refusal({.microbatch_size = 0}),
            "`microbatch_size` = 0; `microbatch_size`; give at least 1");
  EXPECT_EQ(refusal({.num_ranks = 2, .num_microbatches = 0}),
            "the number of microbatches is 0; give at least 1");
  EXPECT_EQ(refusal({.num_ranks = 2, .partition = {.num_ranks = 4}}),
            "the partition is for 4 ranks, but the pipeline has 2 ranks; `partition`; leave "
            "`partition.num_ranks` out");
  EXPECT_EQ(refusal({.num_ranks = 2,
                     .schedule = "Interleaved1F1B",
                     .partition = {.placement = Placement::kV}}),
            "the schedule Interleaved1F1B places its stages on ranks [0, 1, 0, 1], not "
            "[0, 1, 1, 0]; `stage_to_rank`; set `schedule` = \"ZBVZeroBubble\" or \"DualPipeV\", "
            "leave `stage_to_rank` out, or give a schedule of your own by `schedule.own`");
  EXPECT_EQ(refusal({.num_ranks = 2, .partition = {.split_points = {"layers.1"}}}),
            "unknown name 'layers.1' in the split points; `partition`; 'layers.1' is a name of "
            "convention torchtitan: set `partition_convention` to that, or write 'model.layers.1'");
}

TEST(PlanPipelineTest, WarnsOfSequencesThatTheModelWasNotMadeFor) {
  EXPECT_TRUE(plan_pipeline(model_of("llama_untied"), {.seq_len = 128}).warnings.empty());
  EXPECT_EQ(plan_pipeline(model_of("llama_untied"), {.seq_len = 129}).warnings,
            (std::vector<std::string>{
                "`seq_len` = 129 is more than the model's "
                "max_position_embeddings = 128: the model was not made for positions beyond it"}));
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

TEST(PlanPipelineTest, CountsTheSnapshotOfCheckpointsThatAreWrittenBehind) {
  // On one rank the tied head and embedding share storage but have two gradient sums.
  PipelineOptions options = {.num_microbatches = 2, .seq_len = 32, .trainable = {"*_proj.weight"}};
  const RankMemory without = plan_pipeline(model_of("llama_tied"), options).ranks[0].memory;
  options.keeps_snapshot = true;
  const Plan plan = plan_pipeline(model_of("llama_tied"), options);
  const RankMemory with = plan.ranks[0].memory;
  EXPECT_EQ(without.snapshot_bytes, 0);
  EXPECT_EQ(with.snapshot_bytes, with.parameter_bytes + with.optimizer_bytes);
  EXPECT_EQ(with.parameter_bytes, 4 * plan.model.num_parameters());
  EXPECT_EQ(with.held_bytes(), without.held_bytes() + with.snapshot_bytes);
  EXPECT_EQ(with.total_bytes(), without.total_bytes() + with.snapshot_bytes);
  options.optimizer = OptimizerKind::kSgd;
  const RankMemory sgd = plan_pipeline(model_of("llama_tied"), options).ranks[0].memory;
  EXPECT_EQ(sgd.snapshot_bytes, sgd.parameter_bytes);
}

}  // namespace
}  // namespace sluice::pipeline_test
