#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sluice/plan.h"
#include "support/expect_error.h"

namespace sluice::data_parallel_test {
namespace {

ModelSpec model_of(const std::string& name) {
  return read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/models/" + name);
}

// llama_untied has 4 decoder layers. In llama_tied the head shares the embedding's weight.
Plan plan_of(PipelineOptions options, const std::string& model = "llama_untied") {
  options.step_end = StepEnd::kUpdate;
  return plan_pipeline(model_of(model), options);
}

std::string refusal(const PipelineOptions& options) {
  const Error error = test::error_of([&] { plan_of(options); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
  return error.what();
}

std::string row_text(const Plan& plan, int rank) {
  std::string text;
  for (const Action& action : plan.program.ranks[static_cast<std::size_t>(rank)])
    text += (text.empty() ? "" : " ") + to_text(action);
  return text;
}

int count_of(const Plan& plan, ActionKind kind) {
  int count = 0;
  for (const auto& row : plan.program.ranks) {
    count += static_cast<int>(std::count_if(
        row.begin(), row.end(), [&](const Action& action) { return action.kind == kind; }));
  }
  return count;
}

TEST(DataParallelPlanTest, OneReplicaHasTheProgramOfAPipeline) {
  PipelineOptions options{.num_ranks = 2, .num_microbatches = 4};
  const Plan plain = plan_of(options);
  options.data_parallel = {.shards = 4, .zero1 = true, .zero3 = true};
  options.rank_order = "dp,pp";
  const Plan plan = plan_of(options);
  EXPECT_EQ(plan.program.ranks, plain.program.ranks);
  EXPECT_EQ(plan.program.mesh, Mesh({.pp = 2}));
}

TEST(DataParallelPlanTest, EveryStageReducesOnceAfterItsLastBackward) {
  const Plan plan =
      plan_of({.num_ranks = 2, .num_microbatches = 2, .data_parallel = {.degree = 2}});
  EXPECT_EQ(row_text(plan, 0),
            "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE_GRAD REDUCE_LOSS "
            "0PARTIAL_NORM REDUCE_NORM 0UPDATE");
  EXPECT_EQ(row_text(plan, 1),
            "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1REDUCE_GRAD REDUCE_LOSS "
            "1PARTIAL_NORM REDUCE_NORM 1UPDATE");
  EXPECT_EQ(plan.program.mesh, Mesh({.pp = 2, .dp_replicate = 2}));
  EXPECT_TRUE(plan.report.ok());
}

TEST(DataParallelPlanTest, OrReducesEveryMicrobatch) {
  const Plan plan = plan_of({.num_ranks = 1,
                             .num_microbatches = 2,
                             .data_parallel = {.degree = 3, .per_microbatch = true}});
  EXPECT_EQ(row_text(plan, 0),
            "0F0 0B0 0REDUCE_GRAD0 0F1 0B1 0REDUCE_GRAD1 REDUCE_LOSS 0PARTIAL_NORM REDUCE_NORM "
            "0UPDATE");
}

TEST(DataParallelPlanTest, Zero3GathersAStageForItsUses) {
  const Plan plan = plan_of(
      {.num_ranks = 2, .num_microbatches = 1, .data_parallel = {.degree = 2, .zero3 = true}});
  EXPECT_EQ(row_text(plan, 1),
            "1UNSHARD 1RECV_F0 1F0 1B0 1SEND_B0 1REDUCE_GRAD 1RESHARD REDUCE_LOSS 1PARTIAL_NORM "
            "REDUCE_NORM 1UPDATE");
  EXPECT_EQ(plan.program.mesh, Mesh({.pp = 2, .dp_shard = 2}));
}

TEST(DataParallelPlanTest, RanksAreNumberedInTheOrderThatIsGiven) {
  PipelineOptions options{.num_ranks = 2, .data_parallel = {.degree = 3}};
  EXPECT_EQ(plan_of(options).program.mesh.group(0, Axis::kPp), (std::vector<int>{0, 3}));
  options.rank_order = "dp,pp";
  const Plan plan = plan_of(options);
  EXPECT_EQ(plan.program.mesh.group(0, Axis::kPp), (std::vector<int>{0, 1}));
  EXPECT_EQ(plan.program.mesh.group(0, Axis::kDpReplicate), (std::vector<int>{0, 2, 4}));
}

TEST(DataParallelPlanTest, AnOrderOfAllAxesNamesEachOnce) {
  PipelineOptions options{.num_ranks = 2, .data_parallel = {.degree = 2}};
  options.tensor_parallel = {.degree = 2};
  const auto group = [&](const char* order, Axis axis) {
    options.rank_order = order;
    return plan_of(options).program.mesh.group(0, axis);
  };
  EXPECT_EQ(options.rank_order, "pp,dp,cp,tp");
  EXPECT_EQ(group("pp,dp", Axis::kTp), (std::vector<int>{0, 1}));
  EXPECT_EQ(group("dp,pp", Axis::kPp), group("dp,pp,cp,tp", Axis::kPp));
  EXPECT_EQ(group("pp,dp,cp,tp", Axis::kTp), (std::vector<int>{0, 1}));
  EXPECT_EQ(group("pp,dp,cp,tp", Axis::kDpReplicate), (std::vector<int>{0, 2}));
  EXPECT_EQ(group("tp,cp,dp,pp", Axis::kTp), (std::vector<int>{0, 4}));
  EXPECT_EQ(group("dp,tp,pp,cp", Axis::kTp), (std::vector<int>{0, 2}));
  EXPECT_EQ(group("dp,tp,pp,cp", Axis::kPp), (std::vector<int>{0, 1}));
  for (const char* order : {"", "pp", "pp,pp", "pp,dp,tp", "pp,dp,cp,cp", "pp,dp,cp,tp,tp"}) {
    const Error error = test::error_of([&] { group(order, Axis::kTp); });
    EXPECT_EQ(error.where(), "`rank_order`") << error.what();
  }
}

TEST(DataParallelPlanTest, ARankThatSharesLayersHoldsAndComputesItsPart) {
  const auto memory_of = [](int degree, DataParallel how = {}) {
    return plan_of({.data_parallel = how, .tensor_parallel = {.degree = degree}}).ranks[0].memory;
  };
  const RankMemory one = memory_of(1), two = memory_of(2);
  const ModelSpec model = model_of("llama_untied");
  std::int64_t whole = 0;  // parameters that are not sliced (norms)
  for (const LayerInfo& layer : model.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      EXPECT_EQ(parameter.split.has_value(), parameter.shape.size() == 2) << parameter.name;
      if (!parameter.split) whole += parameter.numel();
    }
  }
  EXPECT_EQ(two.num_parameters, (one.num_parameters - whole) / 2 + whole);
  EXPECT_EQ(two.parameter_bytes, 4 * two.num_parameters);
  EXPECT_EQ(two.gradient_bytes, two.parameter_bytes);
  EXPECT_EQ(two.optimizer_bytes, 2 * two.parameter_bytes);
  const RankMemory sharded = memory_of(2, {.degree = 2, .zero1 = true});
  EXPECT_LT(sharded.optimizer_bytes, two.optimizer_bytes);
  EXPECT_EQ(sharded.parameter_bytes, two.parameter_bytes);

  const auto step_of = [](int degree) {
    PipelineOptions options{.balance = Balance::kCost};
    options.tensor_parallel.degree = degree;
    return plan_of(options).simulation.makespan;
  };
  EXPECT_DOUBLE_EQ(step_of(2), step_of(1) / 2);
}

TEST(DataParallelPlanTest, ARankKeepsItsHeadsAndWithSequenceParallelismItsRows) {
  const auto activations = [](TensorParallel how) {
    return plan_of({.tensor_parallel = how}).ranks[0].memory.activation_bytes;
  };
  const std::int64_t one = activations({}), rows = activations({.degree = 2}),
                     all_rows = activations({.degree = 2, .sequence = false});
  EXPECT_GT(rows, one / 2);
  EXPECT_LT(rows, all_rows);
  EXPECT_LT(all_rows, one);
}

TEST(DataParallelPlanTest, RowsOfALengthThatTheSlicesDoNotDivideAreWholeOnEveryRank) {
  const auto plan_with = [](std::int64_t seq_len, bool sequence) {
    return plan_of({.seq_len = seq_len, .tensor_parallel = {.degree = 2, .sequence = sequence}});
  };
  for (const std::int64_t length : {63, 64}) {
    const Plan divided = plan_with(length, true), whole = plan_with(length, false);
    const bool fits = length % 2 == 0;
    EXPECT_EQ(divided.ranks[0].memory.activation_bytes < whole.ranks[0].memory.activation_bytes,
              fits);
    EXPECT_EQ(divided.notes.size(), fits ? 0U : 1U);
    EXPECT_EQ(nlohmann::json::parse(plan_json(divided))["tensor_parallel"]["sequence_parallel"],
              fits);
    EXPECT_EQ(describe_plan(divided, {.width = 200}).find("rows between them") != std::string::npos,
              fits);
  }
  EXPECT_EQ(plan_with(63, true).notes,
            (std::vector<std::string>{"`seq_len` = 63 is no multiple of 2 slices: each rank has "
                                      "all rows of such a microbatch"}));
}

TEST(DataParallelPlanTest, WhatIsWholeOnEveryRankIsComputedThere) {
  const auto plan_with = [](bool divides_mlp, int degree) {
    ModelSpec model = model_of("llama_untied");
    for (LayerInfo& layer : model.layers) {
      for (ParameterSpec& parameter : layer.parameters)
        if (!divides_mlp && parameter.name.find(".mlp.") != std::string::npos)
          parameter.split.reset();
    }
    PipelineOptions options{.balance = Balance::kCost};
    options.tensor_parallel.degree = degree;
    return plan_pipeline(std::move(model), options).simulation.makespan;
  };
  const double one = plan_with(true, 1), half = plan_with(true, 2), whole = plan_with(false, 2);
  EXPECT_DOUBLE_EQ(half, one / 2);
  EXPECT_GT(whole, half);
  EXPECT_LT(whole, one);
}

TEST(DataParallelPlanTest, SlicesDivideTheKeyValueHeads) {
  const Error error = test::error_of([] { plan_of({.tensor_parallel = {.slices = 4}}); });
  EXPECT_EQ(error.where(), "`tensor_parallel.slices`");
  EXPECT_NE(std::string(error.what())
                .find("4 does not divide 2 key-value heads of 'model.layers.0'; "
                      "`tensor_parallel.slices`; the nearest is 2"),
            std::string::npos)
      << error.what();
}

TEST(DataParallelPlanTest, EveryFamilySaysHowItIsDivided) {
  const ModelSpec gpt2 = model_of("gpt2");
  for (const ParameterSpec& parameter : gpt2.layers[1].parameters) {
    if (parameter.name.ends_with("attn.c_attn.weight")) {
      const std::int64_t d = parameter.shape[0];
      EXPECT_EQ(parameter.split->dim, 1);
      EXPECT_EQ(parameter.split->sections, (std::vector<std::int64_t>{d, d, d}));
    }
    if (parameter.name.ends_with("attn.c_attn.bias")) {
      EXPECT_EQ(parameter.split->dim, 0);
    }
    if (parameter.name.ends_with("c_proj.weight")) {
      EXPECT_EQ(parameter.split->dim, 0);
    }
    if (parameter.name.ends_with("c_proj.bias")) {
      EXPECT_FALSE(parameter.split.has_value());
    }
  }
}

TEST(DataParallelPlanTest, RanksThatCannotShareTheSlicesAreRefused) {
  const Error error =
      test::error_of([] { plan_of({.tensor_parallel = {.degree = 3, .slices = 6}}); });
  EXPECT_EQ(error.where(), "`tensor_parallel.degree`") << error.what();
}

TEST(DataParallelPlanTest, EveryScheduleIsProvenWithReplicas) {
  for (const char* schedule : {"GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS",
                               "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"}) {
    for (const bool zero3 : {false, true}) {
      const Plan plan = plan_of({.num_ranks = 2,
                                 .schedule = schedule,
                                 .num_microbatches = 8,
                                 .data_parallel = {.degree = 2, .shards = 8, .zero3 = zero3}});
      EXPECT_TRUE(plan.report.ok()) << schedule;
      EXPECT_EQ(count_of(plan, ActionKind::kReduceGrad), plan.program.num_stages()) << schedule;
      const int gathered = count_of(plan, ActionKind::kUnshard);
      EXPECT_EQ(gathered, count_of(plan, ActionKind::kReshard)) << schedule;
      EXPECT_EQ(gathered >= plan.program.num_stages(), zero3) << schedule;
    }
  }
}

TEST(DataParallelPlanTest, AStageThatTrainsNothingReducesNothing) {
  const PipelineOptions options{.num_ranks = 2,
                                .num_microbatches = 1,
                                .trainable = {"model.layers.3.*", "model.norm.weight"},
                                .data_parallel = {.degree = 2, .zero3 = true}};
  const Plan plan = plan_of(options);
  EXPECT_EQ(row_text(plan, 0),
            "0UNSHARD 0F0 0SEND_F0 0RESHARD REDUCE_LOSS REDUCE_NORM OPTIMIZER_STEP");
  EXPECT_NE(row_text(plan, 1).find("1REDUCE_GRAD"), std::string::npos);
}

TEST(DataParallelPlanTest, TiedWeightsAreSummedOverReplicasThenOverStages) {
  const Plan plan = plan_of({.num_ranks = 2, .num_microbatches = 1, .data_parallel = {.degree = 2}},
                            "llama_tied");
  for (const int rank : {0, 1}) {
    const std::string row = row_text(plan, rank);
    EXPECT_LT(row.find("REDUCE_GRAD"), row.find("REDUCE_TIED")) << row;
    EXPECT_NE(row.find("REDUCE_TIED"), std::string::npos) << row;
  }
}

TEST(DataParallelPlanTest, AProofOfReplicasWantsEveryReduction) {
  Plan plan = plan_of({.num_ranks = 2, .num_microbatches = 2, .data_parallel = {.degree = 2}});
  const auto without = [&](ActionKind kind, std::size_t only_rank) {
    Program program = plan.program;
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      if (only_rank != rank && only_rank != 9) continue;
      std::erase_if(program.ranks[rank], [&](const Action& a) { return a.kind == kind; });
    }
    return verify(program).violations;
  };
  const std::vector<Violation> one = without(ActionKind::kReduceGrad, 1);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].action, "1REDUCE_GRAD");
  const std::vector<Violation> all = without(ActionKind::kReduceGrad, 9);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].reason, "never runs, though there are several replicas");
}

TEST(DataParallelPlanTest, AProofOfShardedParametersWantsEveryStageGathered) {
  const Plan plan = plan_of(
      {.num_ranks = 2, .num_microbatches = 1, .data_parallel = {.degree = 2, .zero3 = true}});
  Program program = plan.program;
  for (auto& row : program.ranks) {
    std::erase_if(row, [](const Action& action) {
      return action.kind == ActionKind::kUnshard || action.kind == ActionKind::kReshard;
    });
  }
  const std::vector<Violation> violations = verify(program).violations;
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].reason, "stage 0 is not gathered: no '0UNSHARD' since it was dropped");
}

TEST(DataParallelPlanTest, RefusesWhatDoesNotFillEvenly) {
  EXPECT_EQ(refusal({.data_parallel = {.degree = 0}}),
            "`data_parallel.degree` = 0; `data_parallel.degree`; give at least 1");
  EXPECT_EQ(refusal({.data_parallel = {.degree = 1 << 30}}),
            "`data_parallel.degree` = 1073741824 is more replicas than sluice supports; "
            "`data_parallel.degree`; give at most 65536");
  EXPECT_EQ(refusal({.num_microbatches = 4, .data_parallel = {.degree = 3, .shards = 4}}),
            "`data_parallel.shards` = 4 is not a multiple of `data_parallel.degree` = 3; "
            "`data_parallel.shards`; the nearest is 3 or 6");
  EXPECT_EQ(refusal({.num_microbatches = 4, .data_parallel = {.degree = 2, .shards = 6}}),
            "`data_parallel.shards` = 6 does not divide the 8 microbatches of all replicas; "
            "`data_parallel.shards`; the nearest is 3 or 6 microbatches a replica");
  EXPECT_EQ(refusal({.num_microbatches = 1, .data_parallel = {.shards = 4}}),
            "`data_parallel.shards` = 4 does not divide the 1 microbatches of all replicas; "
            "`data_parallel.shards`; the nearest is 4 microbatches a replica");
  EXPECT_EQ(refusal({.data_parallel = {.shards = -1}}),
            "`data_parallel.shards` = -1; `data_parallel.shards`; give 0 for as many shards as "
            "replicas, or more");
}

TEST(DataParallelPlanTest, RefusesOptionsThatExcludeEachOther) {
  EXPECT_EQ(refusal({.data_parallel = {.degree = 2, .zero3 = true, .per_microbatch = true}}),
            "`data_parallel.zero3` and `data_parallel.per_microbatch` exclude each other; "
            "`data_parallel.per_microbatch`; reduce once a step where parameters are sharded");
  EXPECT_EQ(refusal({.data_parallel = {.degree = 2}, .rank_order = "pp,bp"}),
            "`rank_order` = \"pp,bp\" is not an order of ranks; `rank_order`; name pp, dp, cp and "
            "tp, each "
            "once; did you mean 'pp,dp'?");
}

TEST(DataParallelPlanTest, ShardsWithoutMeaningAreANote) {
  const Plan fast =
      plan_of({.num_microbatches = 1,
               .data_parallel = {.degree = 3, .shards = 4, .reduction = Reduction::kFast}});
  EXPECT_EQ(
      fast.notes,
      (std::vector<std::string>{
          "`data_parallel.shards` = 4 has no meaning: the transport adds up in its own order"}));
  const Plan single = plan_of(
      {.num_microbatches = 1, .data_parallel = {.degree = 3, .shards = 4, .per_microbatch = true}});
  EXPECT_EQ(single.notes, (std::vector<std::string>{"`data_parallel.shards` = 4 has no meaning: "
                                                    "every microbatch is reduced by itself"}));
}

TEST(DataParallelPlanTest, AScheduleOfOnesOwnReducesAsTheOptionsSay) {
  const auto options = [](const char* rows) {
    return PipelineOptions{.schedule = parse_schedule_csv(rows, "own.csv"),
                           .data_parallel = {.degree = 2}};
  };
  EXPECT_EQ(row_text(plan_of(options("0F0,0B0,0REDUCE_GRAD\n")), 0),
            "0F0 0B0 0REDUCE_GRAD REDUCE_LOSS 0PARTIAL_NORM REDUCE_NORM 0UPDATE");
  EXPECT_EQ(refusal(options("0F0,0B0,0REDUCE_GRAD0\n")),
            "the schedule holds REDUCE_GRAD of single microbatches, not of the step; "
            "`schedule.own`; set `data_parallel.per_microbatch` = true, or leave these "
            "actions out of the schedule");
  EXPECT_EQ(refusal(options("0UNSHARD,0F0,0B0,0RESHARD\n")),
            "the schedule holds UNSHARD, but parameters are not sharded; `schedule.own`; set "
            "`data_parallel.zero3` = true, or leave these actions out of the schedule");
}

// ---- memory ----

RankMemory memory_of(const DataParallel& data_parallel, const std::string& model = "llama_untied",
                     int num_microbatches = 8) {
  return plan_of(
             {.num_ranks = 1, .num_microbatches = num_microbatches, .data_parallel = data_parallel},
             model)
      .ranks[0]
      .memory;
}

TEST(DataParallelPlanTest, EveryOpenSumOfShardsIsASetOfGradients) {
  const RankMemory one = memory_of({});
  EXPECT_EQ(memory_of({.shards = 2}).gradient_bytes, 2 * one.gradient_bytes);
  EXPECT_EQ(memory_of({.shards = 8}).gradient_bytes, 4 * one.gradient_bytes);
  EXPECT_EQ(memory_of({.degree = 2, .shards = 8}).gradient_bytes, 3 * one.gradient_bytes);
  EXPECT_EQ(memory_of({.degree = 8, .shards = 8}).gradient_bytes, one.gradient_bytes);
  EXPECT_EQ(memory_of({.degree = 2, .shards = 8, .reduction = Reduction::kFast}).gradient_bytes,
            one.gradient_bytes);
}

// With one sequence of 8 tokens, activations are small beside the rest of the memory.
RankMemory memory_without_much_activation(const DataParallel& data_parallel, int num_stages) {
  return plan_of({.num_ranks = 1,
                  .num_microbatches = 8,
                  .partition = {.num_stages = num_stages},
                  .seq_len = 1,
                  .data_parallel = data_parallel},
                 "llama_untied")
      .ranks[0]
      .memory;
}

TEST(DataParallelPlanTest, WhatOthersOwnIsCopiedOnceWhileReplicasAddUp) {
  EXPECT_EQ(memory_without_much_activation({.shards = 2}, 1).reduction_bytes, 0);
  for (const int num_stages : {1, 2}) {
    for (const int degree : {2, 4}) {
      const RankMemory memory = memory_without_much_activation({.degree = degree}, num_stages);
      const auto others = static_cast<double>(memory.gradient_bytes) * (degree - 1) / degree;
      // The reduction runs when no activations are live, and owners own whole blocks.
      const auto sum = static_cast<double>(memory.reduction_bytes + memory.running_bytes +
                                           memory.activation_bytes);
      EXPECT_NEAR(sum / others, 1, 0.1) << num_stages << " " << degree;
      EXPECT_EQ(memory.total_bytes(), memory.held_bytes() + memory.reduction_bytes +
                                          memory.activation_bytes + memory.running_bytes);
    }
  }
}

TEST(DataParallelPlanTest, TheSumOfATiedParameterIsThereOncePerRankThatUsesIt) {
  const Plan plan =
      plan_of({.num_ranks = 3, .num_microbatches = 4, .partition = {.num_stages = 3}, .seq_len = 1},
              "llama_tied");
  const ParameterSpec& table = plan.model.layers.front().parameters.front();
  const std::int64_t bytes = 4 * table.numel();
  for (const int rank : {0, 2}) {
    // At that moment activations are freed, but scratch memory of fused operators stays.
    const RankMemory& memory = plan.ranks[rank].memory;
    EXPECT_GT(memory.reduction_bytes, 0) << rank;
    EXPECT_LE(memory.reduction_bytes, bytes) << rank;
    EXPECT_GE(memory.reduction_bytes + memory.activation_bytes + memory.running_bytes, bytes)
        << rank;
  }
  EXPECT_EQ(plan.ranks[1].memory.reduction_bytes, 0);
}

TEST(DataParallelPlanTest, ActivationsThatAreMoreThanTheCopiesHideThem) {
  EXPECT_EQ(plan_of({.num_ranks = 1,
                     .schedule = "GPipe",
                     .num_microbatches = 8,
                     .seq_len = 512,
                     .data_parallel = {.degree = 2}},
                    "llama_untied")
                .ranks[0]
                .memory.reduction_bytes,
            0);
}

TEST(DataParallelPlanTest, StateAndParametersFallWithTheReplicas) {
  const RankMemory one = memory_of({});
  for (const int degree : {2, 4}) {
    // The size of the largest share.
    const double share = static_cast<double>(one.num_parameters) / degree;
    constexpr double kBlock = 16384;
    const RankMemory zero1 = memory_of({.degree = degree, .zero1 = true});
    EXPECT_NEAR(static_cast<double>(zero1.optimizer_bytes) / 8, share, kBlock);
    EXPECT_GE(static_cast<double>(zero1.optimizer_bytes) / 8, share);
    EXPECT_EQ(zero1.parameter_bytes, one.parameter_bytes);
    EXPECT_EQ(zero1.gathered_bytes, 0);
    const RankMemory zero3 = memory_of({.degree = degree, .zero3 = true});
    EXPECT_EQ(zero3.optimizer_bytes, zero1.optimizer_bytes);
    EXPECT_EQ(zero3.parameter_bytes, zero1.optimizer_bytes / 2);
    EXPECT_EQ(zero3.gradient_bytes, one.gradient_bytes);
    EXPECT_EQ(zero3.gathered_bytes, one.parameter_bytes);
  }
  EXPECT_EQ(memory_of({.zero1 = true, .zero3 = true}).total_bytes(), one.total_bytes());
}

TEST(DataParallelPlanTest, AtMostAWindowOfStagesIsGathered) {
  const Plan plan = plan_of({.num_ranks = 1,
                             .schedule = "Interleaved1F1B",
                             .num_microbatches = 2,
                             .partition = {.num_stages = 4},
                             .data_parallel = {.degree = 2, .zero3 = true}});
  const RankMemory& memory = plan.ranks[0].memory;
  EXPECT_LT(memory.gathered_bytes, 4 * memory.num_parameters);
  EXPECT_GT(memory.gathered_bytes, memory.num_parameters);
}

// ---- descriptions ----

TEST(DataParallelPlanTest, IsDescribedAsOneOfSeveralReplicas) {
  PipelineOptions options{.num_ranks = 2,
                          .num_microbatches = 4,
                          .data_parallel = {.degree = 4, .shards = 8, .zero1 = true}};
  const std::string text = describe_plan(plan_of(options), {.width = 120});
  EXPECT_NE(text.find("data parallel: 4 replicas of this pipeline, 8 ranks in total (rank_order "
                      "pp,dp,cp,tp), gradients add up in"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("reduction"), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(plan_json(plan_of(options)));
  EXPECT_EQ(json["data_parallel"].dump(),
            "{\"degree\":4,\"num_ranks\":8,\"per_microbatch\":false,\"rank_order\":\"pp,dp,cp,tp\","
            "\"reduction\":\"exact\",\"shards\":8,\"zero1\":true,\"zero3\":false}");
  EXPECT_EQ(json["memory"].size(), 2u);
  options.data_parallel = {};
  EXPECT_EQ(describe_plan(plan_of(options), {.width = 120}).find("data parallel"),
            std::string::npos);
}

TEST(DataParallelPlanTest, ThousandsOfReplicasCostAPlanNothing) {
  const Plan plan = plan_of(
      {.num_ranks = 4, .num_microbatches = 16, .data_parallel = {.degree = 4096, .shards = 65536}});
  EXPECT_EQ(plan.program.mesh.num_ranks(), 4 * 4096);
  EXPECT_EQ(plan.program.ranks.size(), 4u);
}

}  // namespace
}  // namespace sluice::data_parallel_test
