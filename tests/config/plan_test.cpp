#include "config/run_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/name_pattern.h"
#include "plan/predict/layer_times.h"
#include "plan/trainable.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

const std::string kModels = std::string(SLUICE_TEST_DATA) + "/reference/models/";

class PlanTest : public testing::Test {
 protected:
  // llama_untied with 4 decoder layers, by default on 2 ranks with 4 microbatches.
  RunConfig config(Overrides overrides = {}, const std::string& model = "llama_untied") {
    Overrides all = {{"model.config", kModels + model + "/config.json"},
                     {"parallelism.pipeline_parallel_degree", "2"},
                     {"training.local_batch_size", "4"},
                     {"training.seq_len", "32"}};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return load_run_config("", all, {});
  }
  RunConfig with_csv(const std::string& text, Overrides overrides = {}) {
    test::write_file(folder_ / "own.csv", text);
    overrides.emplace_back("parallelism.pipeline_parallel_schedule_csv", folder_ / "own.csv");
    return config(overrides);
  }
  std::string refusal(const RunConfig& run, int code) {
    try {
      plan_of_config(run);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), code) << error.what();
      std::string message = error.what();
      for (std::size_t at; (at = message.find(folder_.str())) != std::string::npos;) {
        message.replace(at, folder_.str().size(), "D");
      }
      return message;
    }
    return "accepted";
  }
  test::TempDirectory folder_;
};

TEST_F(PlanTest, GoesFromTheConfigurationToAProvenProgram) {
  const Plan plan = plan_of_config(config());
  EXPECT_EQ(plan.partition.num_stages(), 2);
  EXPECT_EQ(plan.schedule.name, "1F1B");
  EXPECT_EQ(plan.program.num_microbatches, 4);
  EXPECT_TRUE(plan.report.ok());
  EXPECT_EQ(plan.report.required_capacity, verify(plan.program).required_capacity);
  for (const auto& rank : plan.program.ranks) {
    ASSERT_GE(rank.size(), 2u);
    EXPECT_EQ(rank.back().kind, ActionKind::kUpdate);
    EXPECT_EQ(rank[rank.size() - 2].kind, ActionKind::kReduceNorm);
  }
  // F = 1, B = 2: (4 microbatches + 2 ranks - 1) x 3.
  EXPECT_EQ(plan.simulation.makespan, 15);
}

TEST_F(PlanTest, CountsTheBytesThatEachRankHolds) {
  const Plan plan = plan_of_config(config());
  std::int64_t parameters = 0;
  for (const RankPrediction& of : plan.ranks) {
    const RankMemory& rank = of.memory;
    EXPECT_EQ(rank.parameter_bytes, 4 * rank.num_parameters);
    EXPECT_EQ(rank.gradient_bytes, rank.parameter_bytes);
    EXPECT_EQ(rank.optimizer_bytes, 2 * rank.parameter_bytes);
    parameters += rank.num_parameters;
  }
  EXPECT_EQ(parameters, plan.model.num_parameters());
  EXPECT_EQ(plan_of_config(config({{"optimizer.name", "SGD"}})).ranks[0].memory.optimizer_bytes, 0);
}

TEST_F(PlanTest, ReducesTiedWeightsAndCountsThemOncePerRank) {
  const Plan apart = plan_of_config(config({}, "llama_tied"));
  ASSERT_EQ(apart.partition.tie_groups.size(), 1u);
  EXPECT_EQ(apart.partition.tie_groups[0].stages, (std::vector<int>{0, 1}));
  for (const auto& rank : apart.program.ranks) {
    EXPECT_TRUE(std::any_of(rank.begin(), rank.end(), [](const Action& action) {
      return action.kind == ActionKind::kReduceTied;
    }));
  }
  const std::int64_t embedding = apart.model.layers[0].num_parameters();
  EXPECT_EQ(apart.ranks[0].memory.num_parameters + apart.ranks[1].memory.num_parameters,
            apart.model.num_parameters() + embedding);

  const Plan together =
      plan_of_config(config({{"parallelism.pipeline_parallel_degree", "1"}}, "llama_tied"));
  EXPECT_EQ(together.ranks[0].memory.num_parameters, together.model.num_parameters());
  EXPECT_EQ(together.ranks[0].memory.gradient_bytes,
            4 * (together.model.num_parameters() + embedding));
}

TEST_F(PlanTest, PlacesStagesAsTheScheduleNeeds) {
  const Plan loop =
      plan_of_config(config({{"parallelism.pipeline_parallel_schedule", "Interleaved1F1B"}}));
  EXPECT_EQ(loop.partition.stage_map.ranks(), (std::vector<int>{0, 1, 0, 1}));
  const Plan v =
      plan_of_config(config({{"parallelism.pipeline_parallel_schedule", "zbvzerobubble"}}));
  EXPECT_EQ(v.partition.stage_map.ranks(), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(v.schedule.stage_map.ranks(), v.partition.stage_map.ranks());
  EXPECT_EQ(v.program.stage_map.ranks(), v.partition.stage_map.ranks());
}

TEST_F(PlanTest, RenumbersTheRanksForAMapOfItsOwn) {
  const Plan plan = plan_of_config(config({{"parallelism.stage_to_rank", "[1, 0]"}}));
  EXPECT_EQ(plan.program.stage_map.ranks(), (std::vector<int>{1, 0}));
  EXPECT_EQ(plan.partition.stages[0].rank, 1);
  EXPECT_EQ(to_text(plan.program.ranks[1].front()), "0F0");
  EXPECT_EQ(plan.simulation.makespan, 15);
}

TEST_F(PlanTest, RefusesAPlacementThatTheScheduleDoesNotHave) {
  EXPECT_EQ(refusal(config({{"parallelism.pipeline_parallel_schedule", "Interleaved1F1B"},
                            {"parallelism.stage_to_rank", "v"}}),
                    2),
            "the schedule Interleaved1F1B places its stages on ranks [0, 1, 0, 1], not "
            "[0, 1, 1, 0]; --parallelism.stage_to_rank; set parallelism.pipeline_parallel_schedule "
            "= \"ZBVZeroBubble\" or \"DualPipeV\", leave parallelism.stage_to_rank out, or give a "
            "schedule of your own "
            "by parallelism.pipeline_parallel_schedule_csv");
}

TEST_F(PlanTest, AStarInAListOfLayersToRunTwiceIsANameAsAnyOther) {
  const auto with = [&](const char* value) {
    return config({{"training.activation_checkpoint", value}});
  };
  const std::string message = refusal(with("[\"*\"]"), 2);
  EXPECT_EQ(message.rfind("training.activation_checkpoint: no layer is named '*'", 0), 0u)
      << message;
  EXPECT_EQ(plan_of_config(with("full")).partition.stages[0].recomputed, (std::vector<int>{1, 2}));
  EXPECT_TRUE(plan_of_config(with("none")).partition.stages[0].recomputed.empty());
}

TEST_F(PlanTest, NeedsAModel) {
  EXPECT_EQ(
      refusal(load_run_config("", {}, {}), 2),
      "the configuration names no model; model.path; set model.path, model.config or model.graph");
  EXPECT_NE(refusal(load_run_config("", {{"model.path", "no/such/folder"}}, {}), 3).find("no/such"),
            std::string::npos);
}

TEST_F(PlanTest, RefusesSequencesLongerThanLearnedPositions) {
  EXPECT_EQ(plan_of_config(config({{"training.seq_len", "64"}}, "gpt2")).partition.num_stages(), 2);
  EXPECT_EQ(refusal(config({{"training.seq_len", "65"}}, "gpt2"), 2),
            "training.seq_len = 65 is more than the model's 64 positions; --training.seq_len; set "
            "training.seq_len to at most 64");
}

TEST_F(PlanTest, RefusesMoreStagesThanLayers) {
  const std::string message = refusal(config({{"parallelism.pipeline_parallel_degree", "9"}}), 2);
  EXPECT_NE(message.find("9"), std::string::npos) << message;
}

constexpr const char* kGood = "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n";

TEST_F(PlanTest, ReadsAScheduleOfItsOwn) {
  const Plan plan = plan_of_config(with_csv(kGood, {{"training.local_batch_size", "2"}}));
  EXPECT_EQ(plan.program.num_microbatches, 2);
  EXPECT_TRUE(plan.report.ok());
  EXPECT_EQ(plan.partition.stage_map.ranks(), (std::vector<int>{0, 1}));
}

TEST_F(PlanTest, RefusesAScheduleThatDoesNotFitTheConfiguration) {
  EXPECT_EQ(refusal(with_csv(kGood), 2),
            "the schedule D/own.csv has 2 microbatches, but training.local_batch_size / "
            "training.microbatch_size = 4; --parallelism.pipeline_parallel_schedule_csv; "
            "set training.local_batch_size = 2");
  EXPECT_EQ(refusal(with_csv(kGood, {{"training.local_batch_size", "2"},
                                     {"parallelism.pipeline_parallel_degree", "4"}}),
                    2),
            "the schedule D/own.csv has 2 ranks, but parallelism.pipeline_parallel_degree = 4; "
            "--parallelism.pipeline_parallel_schedule_csv; "
            "set parallelism.pipeline_parallel_degree = 2");
  EXPECT_EQ(refusal(with_csv(kGood, {{"training.local_batch_size", "2"},
                                     {"parallelism.pipeline_parallel_split_points",
                                      "[\"model.layers.1\", \"model.layers.2\"]"}}),
                    2),
            "the names make 3 stages, but 2 are asked for; --parallelism.pipeline_parallel_degree, "
            "--parallelism.pipeline_parallel_schedule_csv, "
            "--parallelism.pipeline_parallel_split_points; "
            "give 1 cut, or leave the number of stages out");
  EXPECT_EQ(refusal(config({{"parallelism.pipeline_parallel_schedule_csv", "none.csv"}}), 3),
            "cannot open file: No such file or directory; none.csv; check the path");
}

TEST_F(PlanTest, RefusesAScheduleThatCannotCompleteAndCanDrawIt) {
  const Overrides two = {{"training.local_batch_size", "2"}};
  for (const auto& [text, mark] : std::map<std::string, std::string>{
           {"0F0,0B0,0F1,0B1\n1B0,1F0,1F1,1B1\n", "^"},       // backward before forward
           {"0F0,0F1,0B0\n1F0,1F1,1B0,1B1\n", "never runs"},  // a missing backward
           {"1F0,0F0,0B0,0F1,0B1\n1F1,1B0,1B1\n", "^"}}) {    // a forward on the wrong rank
    try {
      plan_of_config(with_csv(text, two));
      ADD_FAILURE() << "accepted: " << text;
    } catch (const RefusedSchedule& refused) {
      EXPECT_EQ(refused.exit_code(), 3);
      EXPECT_FALSE(refused.report().ok());
      const std::string picture = draw_violations(refused.program(), refused.report());
      EXPECT_NE(picture.find(mark), std::string::npos) << picture;
    }
  }
}

TEST_F(PlanTest, TakesInterleaved1F1BForSeveralStagesARankWithoutAName) {
  const std::string note =
      "several stages a rank and no schedule named: Interleaved1F1B is taken "
      "(parallelism.pipeline_parallel_schedule)";
  for (const auto& [key, value] : std::map<std::string, std::string>{
           {"pipeline_parallel_stages_per_rank", "2"},
           {"pipeline_parallel_layers_per_stage", "1"},
           {"pipeline_parallel_split_points",
            "[\"model.layers.1\", \"model.layers.2\", \"model.layers.3\"]"},
           {"stage_to_rank", "[0, 1, 0, 1]"}}) {
    const Plan plan = plan_of_config(config({{"parallelism." + key, value}}));
    EXPECT_EQ(plan.schedule.name, "Interleaved1F1B") << key;
    EXPECT_EQ(plan.notes, std::vector<std::string>{note}) << key;
  }
  EXPECT_TRUE(plan_of_config(config()).notes.empty());
  const std::string named =
      refusal(config({{"parallelism.pipeline_parallel_schedule", "1F1B"},
                      {"parallelism.pipeline_parallel_stages_per_rank", "2"}}),
              2);
  EXPECT_NE(named.find("1F1B"), std::string::npos) << named;
}

TEST_F(PlanTest, SaysWhichSchedulesFitAV) {
  const std::string message =
      refusal(config({{"parallelism.stage_to_rank", "v"},
                      {"parallelism.pipeline_parallel_stages_per_rank", "2"}}),
              2);
  EXPECT_NE(message.find("pipeline_parallel_schedule = \"ZBVZeroBubble\" or \"DualPipeV\""),
            std::string::npos)
      << message;
}

TEST_F(PlanTest, SaysHowManyStagesFitTheRanks) {
  EXPECT_EQ(
      refusal(config({{"parallelism.stage_to_rank", "[0, 1, 0]"}}), 2),
      "the split makes 3 stages on 2 ranks, but the schedule Interleaved1F1B needs the same number "
      "on every rank; --parallelism.stage_to_rank; make 2 or 4 stages, or give a schedule of "
      "your own by parallelism.pipeline_parallel_schedule_csv");
}

TEST_F(PlanTest, AScheduleFileWinsOverAName) {
  RunConfig run = with_csv(kGood, {{"training.local_batch_size", "2"}});
  run.parallelism.pipeline.schedule = "GPipe";
  const Plan plan = plan_of_config(run);
  EXPECT_EQ(plan.schedule.name, folder_ / "own.csv");
  EXPECT_EQ(plan.notes,
            (std::vector<std::string>{"parallelism.pipeline_parallel_schedule = \"GPipe\" is not "
                                      "used: the schedule comes from " +
                                      (folder_ / "own.csv")}));
}

TEST_F(PlanTest, SplitPointsOfTorchtitanWinOverLayersPerStage) {
  RunConfig run = config({{"parallelism.partition_convention", "torchtitan"},
                          {"parallelism.pipeline_parallel_split_points", "[\"layers.1\"]"}});
  run.parallelism.pipeline.partition.layers_per_stage = 2;
  const Plan plan = plan_of_config(run);
  EXPECT_EQ(plan.partition.stages[0].num_layers, 1);
  EXPECT_EQ(plan.notes,
            (std::vector<std::string>{"parallelism.pipeline_parallel_layers_per_stage = 2 is not "
                                      "used: the split points win, as in torchtitan"}));
}

TEST_F(PlanTest, NamesTheKeyWhenANameIsOfAnotherConvention) {
  const std::string message =
      refusal(config({{"parallelism.pipeline_parallel_split_points", "[\"layers.1\"]"}}), 2);
  EXPECT_NE(message.find("is a name of convention torchtitan: set "
                         "parallelism.partition_convention to that"),
            std::string::npos)
      << message;
}

TEST_F(PlanTest, NamesOnlyThePlacesOfKeysThatDecideTheSplit) {
  const std::string message = refusal(config({{"parallelism.zero3", "false"},
                                              {"parallelism.reduction", "exact"},
                                              {"parallelism.rank_order", "pp,dp"},
                                              {"parallelism.device_memory", "\"\""},
                                              {"parallelism.data_parallel_shards", "0"},
                                              {"parallelism.pipeline_parallel_cuts", "[\"x\"]"}}),
                                      2);
  EXPECT_NE(message.find("; --parallelism.pipeline_parallel_cuts, "
                         "--parallelism.pipeline_parallel_degree; "),
            std::string::npos)
      << message;
}

TEST_F(PlanTest, WarnsOfWhatIsHardlyMeant) {
  EXPECT_TRUE(plan_of_config(config({{"training.seq_len", "128"}})).warnings.empty());
  EXPECT_EQ(plan_of_config(config({{"training.seq_len", "129"}})).warnings,
            (std::vector<std::string>{
                "training.seq_len = 129 is more than the model's max_position_embeddings = 128: "
                "the model was not made for positions beyond it; --training.seq_len"}));
  EXPECT_TRUE(plan_of_config(config({{"lr_scheduler.warmup_steps", "100"}})).warnings.empty());
  EXPECT_EQ(plan_of_config(config({{"lr_scheduler.warmup_steps", "101"}})).warnings,
            (std::vector<std::string>{
                "lr_scheduler.warmup_steps = 101 is more than training.steps = 100: the rate never "
                "reaches optimizer.lr; --lr_scheduler.warmup_steps"}));
  const Overrides held_out = {{"validation.files", "[\"held-out.txt\"]"}};
  EXPECT_EQ(plan_of_config(config(held_out)).warnings,
            (std::vector<std::string>{"validation.files is given, but validation.interval = 0: no "
                                      "validation is taken; --validation.files"}));
  EXPECT_TRUE(
      plan_of_config(config({held_out.front(), {"validation.interval", "5"}})).warnings.empty());
}

TEST_F(PlanTest, RefusesPatternsWithoutDecayThatMatchNothing) {
  for (const char* pattern : {"norm", "bias", "LayerNorm.weight"}) {
    const std::string message =
        refusal(config({{"optimizer.no_decay", "[\"" + std::string(pattern) + "\"]"}}), 2);
    EXPECT_TRUE(message.starts_with("optimizer.no_decay: '" + std::string(pattern) +
                                    "' matches no parameter; --optimizer.no_decay; "))
        << message;
  }
  EXPECT_NE(refusal(config({{"optimizer.no_decay", R"(["*norm*", "*.q_porj.*"])"}}), 2)
                .find("'*.q_porj.*' matches no parameter; --optimizer.no_decay; did you mean "
                      "'*q_proj*'?"),
            std::string::npos);
  EXPECT_NO_THROW(plan_of_config(config({{"optimizer.no_decay", "[\"*norm*\"]"}})));
}

TEST_F(PlanTest, OneWordExcludesNormsAndBiasesFromWeightDecay) {
  const std::map<std::string, std::vector<std::string>> patterns = {{"llama_untied", {"*norm*"}},
                                                                    {"gpt2", {"*.ln_*", "*.bias"}}};
  for (const auto& [name, own] : patterns) {
    const RunConfig run = config({{"optimizer.no_decay", "norms-and-biases"}}, name);
    EXPECT_NO_THROW(plan_of_config(run)) << name;
    EXPECT_NE(show_config(run).find("optimizer.no_decay = \"norms-and-biases\" "),
              std::string::npos);
    const ModelSpec model = model_of_config(run);
    std::set<std::string> expected;
    for (const LayerInfo& layer : model.layers) {
      for (const ParameterSpec& parameter : layer.parameters)
        if (matches_any(own, parameter.name)) expected.insert(parameter.name);
    }
    const auto found = detail::no_decay_patterns(model, run.optimizer.no_decay);
    EXPECT_EQ(std::set<std::string>(found.begin(), found.end()), expected) << name;
    EXPECT_FALSE(found.empty());
  }
  const ModelSpec model = model_of_config(config());
  const auto more = detail::no_decay_patterns(model, {"model.embed*", kNormsAndBiases});
  EXPECT_EQ(more.front(), "model.embed*");
  EXPECT_EQ(more.size(), 1u + 2 * 4 + 1);
}

TEST_F(PlanTest, AllLinearSelectsEveryLinearLayerExceptHead) {
  const auto trained = [&](const std::string& target) {
    const RunConfig run = config({{"lora.rank", "2"}, {"lora.target", target}});
    const Plan plan = plan_of_config(run);
    const std::optional<Adapter> adapter = adapter_of_config(run, model_of_config(run));
    std::vector<std::string> names;
    for (const AdaptedLinear& layer : adapter->layers) names.push_back(layer.name);
    return names;
  };
  const std::vector<std::string> all = trained("all-linear");
  EXPECT_EQ(all.size(), 4u * 7);
  EXPECT_EQ(trained(R"(["all-linear"])"), all);
  EXPECT_EQ(trained(R"(["model.*_proj"])"), all);
  EXPECT_LT(all.size(), trained(R"(["*"])").size());
}

TEST_F(PlanTest, MomentumTakesHalfOfTheStateOfAdamW) {
  const auto state_bytes = [&](const Overrides& overrides) {
    std::int64_t bytes = 0;
    for (const RankPrediction& rank : plan_of_config(config(overrides)).ranks)
      bytes += rank.memory.optimizer_bytes;
    return bytes;
  };
  const std::int64_t momentum =
      state_bytes({{"optimizer.name", "SGD"}, {"optimizer.momentum", "0.9"}});
  EXPECT_GT(momentum, 0);
  EXPECT_EQ(state_bytes({}), 2 * momentum);
  EXPECT_EQ(state_bytes({{"optimizer.name", "SGD"}}), 0);
}

TEST_F(PlanTest, WarnsOfSettingsWithoutEffect) {
  const std::vector<std::array<std::string, 4>> idle = {
      {"lr_scheduler.min_lr_factor", "0.1", "lr_scheduler.decay = \"constant\"", ""},
      {"optimizer.betas", "[0.8, 0.9]", "optimizer.name = \"SGD\"", "optimizer.name=SGD"},
      {"optimizer.momentum", "0.9", "optimizer.name = \"AdamW\"", ""},
      {"optimizer.no_decay", "[\"*norm*\"]", "optimizer.weight_decay = 0",
       "optimizer.weight_decay=0"},
      {"parallelism.zero1", "true", "parallelism.data_parallel_degree = 1", ""},
      {"parallelism.zero3", "true", "parallelism.data_parallel_degree = 1", ""},
      {"parallelism.rank_order", "dp,pp", "ranks differ along one axis alone", ""},
      {"checkpoint.keep_every", "10", "checkpoint.interval = 0", ""},
      {"checkpoint.allow", "[\"data\"]", "checkpoint.resume = \"none\"", "checkpoint.resume=none"},
      {"training.loss_chunks", "on", "training.fused = \"off\"", "training.fused=off"},
      {"validation.steps", "3", "there are no validation.files", ""},
      {"validation.prompt_tokens", "3", "there are no validation.prompts", ""}};
  for (const auto& [key, value, because, beside] : idle) {
    Overrides overrides = {{key, value}};
    if (const std::size_t at = beside.find('='); at != std::string::npos)
      overrides.emplace_back(beside.substr(0, at), beside.substr(at + 1));
    const std::vector<std::string> warnings = plan_of_config(config(overrides)).warnings;
    EXPECT_EQ(std::count(warnings.begin(), warnings.end(),
                         key + " has no effect: " + because + "; --" + key),
              1)
        << key;
  }
  EXPECT_EQ(plan_of_config(config()).warnings, std::vector<std::string>());
  const Plan threads = plan_of_config(config({{"training.threads_per_rank", "1024"}}));
  ASSERT_EQ(threads.warnings.size(), 1u);
  EXPECT_TRUE(
      threads.warnings.front().starts_with("training.threads_per_rank = 1024 is more than "))
      << threads.warnings.front();
}

TEST_F(PlanTest, WarnsOfValidationOnTrainingFiles) {
  const std::string text = folder_ / "text.txt";
  test::write_file(text, "some text");
  const std::string files = "[\"" + text + "\"]";
  const auto warnings = [&](const std::string& interval) {
    return plan_of_config(config({{"data.files", files},
                                  {"validation.files", files},
                                  {"validation.interval", interval}}))
        .warnings;
  };
  EXPECT_EQ(warnings("2"), std::vector<std::string>{
                               "validation.files shares files with data.files: the validation loss "
                               "includes rows that were trained on; --validation.files"});
}

TEST_F(PlanTest, DescribesEveryStageAndRank) {
  const RunConfig run = config({}, "llama_tied");
  const Plan plan = plan_of_config(run);
  const std::string text = describe_plan(plan, {});
  for (const char* part :
       {"split: llama, ", "model.embed_tokens, model.layers.0-2",
        "model.layers.3-5, model.norm, lm_head", "cut before model.layers.3",
        "tied: model.embed_tokens.weight on stages 0, 1",
        "schedule: 1F1B, 4 microbatches of 1 x 32 tokens, [1, 32, 64] between stages",
        "proof: ", "prediction: 15 units of time, every rank busy for 12, bubble 20.0%"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const auto json = nlohmann::json::parse(plan_json(plan));
  EXPECT_EQ(json["split"]["num_stages"], 2);
  EXPECT_EQ(json["split"]["stages"][1]["num_layers"], 3);
  EXPECT_EQ(json["split"]["stages"][1]["parameters"].back(), "lm_head.weight");
  EXPECT_EQ(json["split"]["stages"][1]["input_shape"], nlohmann::json({1, 32, 64}));
  EXPECT_EQ(json["simulate"]["makespan"], 15);
  EXPECT_EQ(json["simulate"]["warmup_per_rank"], nlohmann::json({0, 1}));
  EXPECT_EQ(json["memory"].size(), 2u);
  EXPECT_EQ(json["check"]["ok"], true);
  EXPECT_EQ(json["check"]["violations"], nlohmann::json::array());
  EXPECT_EQ(json["notes"], nlohmann::json::array());
  EXPECT_EQ(json["warnings"], nlohmann::json::array());
}

TEST_F(PlanTest, CountsASnapshotWhereCheckpointsAreWrittenBehindTheTraining) {
  RunConfig run = config();
  const auto snapshots = [&] {
    std::vector<bool> is_there;
    const auto json = nlohmann::json::parse(plan_json(plan_of_config(run)));
    for (const auto& rank : json["memory"]) {
      const auto bytes = rank["snapshot_bytes"].get<std::int64_t>();
      is_there.push_back(bytes > 0);
      if (bytes == 0) continue;
      EXPECT_EQ(bytes, rank["parameter_bytes"].get<std::int64_t>() +
                           rank["optimizer_bytes"].get<std::int64_t>());
    }
    return is_there;
  };
  const std::vector<bool> none(2, false), all(2, true);
  EXPECT_EQ(snapshots(), none);
  EXPECT_EQ(describe_plan(plan_of_config(run), {}).find("snapshot"), std::string::npos);
  run.checkpoint.interval = 10;
  EXPECT_EQ(snapshots(), all);
  EXPECT_NE(describe_plan(plan_of_config(run), {}).find("optimizer  snapshot  activations"),
            std::string::npos)
      << describe_plan(plan_of_config(run), {});
  run.checkpoint.async = false;
  EXPECT_EQ(snapshots(), none);
}

TEST_F(PlanTest, TheTextShowsNotesAndTheWeightsOfTheConvention) {
  const RunConfig run = config({{"parallelism.partition_convention", "torchtitan"},
                                {"parallelism.pipeline_parallel_stages_per_rank", "2"}});
  const std::string text = describe_plan(plan_of_config(run), {});
  EXPECT_NE(text.find("counted with the embedding as 1 layer, norm and head as 1 layer\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\nnote: several stages a rank"), std::string::npos) << text;
}

TEST_F(PlanTest, TheTextFitsTheTerminal) {
  for (const char* schedule : {"1F1B", "Interleaved1F1B", "DualPipeV"}) {
    for (const std::string model : {"llama_tied", "gpt2"}) {
      const RunConfig run = config({{"parallelism.pipeline_parallel_schedule", schedule},
                                    {"training.local_batch_size", "64"}},
                                   model);
      const Plan plan = plan_of_config(run);
      for (const int width : {40, 80, 120}) {
        std::istringstream lines(describe_plan(plan, {false, width}));
        for (std::string line; std::getline(lines, line);) {
          EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
        }
      }
    }
  }
}

// For sequences of 32 tokens, in the format of a measurement.
std::string costs_text(const RunConfig& run, double head) {
  const ModelSpec model = read_model_spec(run.model.config);
  LayerTimes times = without_times(model, {1, run.training.seq_len}, OptimizerKind::kAdamW);
  times.of = timed_run_of(run, model);
  for (LayerTime& layer : times.layers) {
    layer.forward = layer.backward_input = layer.backward_weight =
        layer.role == LayerRole::kHead    ? head
        : layer.role == LayerRole::kBlock ? 1.0
                                          : 0.0;
    layer.backward = 2 * layer.forward;
  }
  return layer_times_json(times);
}

TEST_F(PlanTest, SplitsByMeasuredCosts) {
  const std::string path = folder_ / "costs.json";
  test::write_file(path, costs_text(config(), 2.0));
  const RunConfig run =
      config({{"parallelism.partition", "measured"}, {"parallelism.costs", path}});
  EXPECT_FALSE(needs_measurement(run));
  const Plan plan = plan_of_config(run);
  EXPECT_EQ(plan.time_unit, "s");
  EXPECT_EQ(plan.partition.stages[0].num_layers, 3);
  EXPECT_EQ(plan.partition.stages[1].num_layers, 1);
  // 4 microbatches, 3 layers of F and B per rank, plus the ramp of the other stage.
  EXPECT_DOUBLE_EQ(plan.simulation.makespan, (4 + 1) * 3 * 3.0);
  EXPECT_NE(describe_plan(plan, {}).find("prediction: 45000.0 ms a step"), std::string::npos)
      << describe_plan(plan, {});
}

TEST_F(PlanTest, RefusesMeasuredCostsOfAnotherRun) {
  const std::string path = folder_ / "costs.json";
  test::write_file(path, costs_text(config(), 2.0));
  const Overrides measured = {{"parallelism.partition", "measured"}, {"parallelism.costs", path}};
  Overrides longer = measured;
  longer.emplace_back("training.seq_len", "64");
  EXPECT_EQ(
      refusal(config(longer), 3),
      "the costs belong to another run: seq_len 32, not 64; D/costs.json; measure them again: "
      "sluice plan CONFIG.toml --measure COSTS.json");
  EXPECT_NE(refusal(config(measured, "gpt2"), 3).find("the model has "), std::string::npos);
  EXPECT_NE(refusal(config({{"parallelism.costs", folder_ / "none.json"}}), 3).find("none.json"),
            std::string::npos);
}

TEST_F(PlanTest, WithoutAMeasurementCountsAndSaysSo) {
  const RunConfig run = config({{"parallelism.pipeline_parallel_schedule", "auto"}});
  EXPECT_TRUE(needs_measurement(run));
  const Plan plan = plan_of_config(run);
  EXPECT_EQ(plan.time_unit, "GFLOP");
  EXPECT_EQ(plan.options.balance, Balance::kCost);
  ASSERT_FALSE(plan.notes.empty());
  EXPECT_TRUE(plan.notes.front().starts_with("counted costs stand for the times"))
      << plan.notes.front();
  const MeasuredMachine measured = {costs_text(run, 2.0), std::int64_t{1} << 40};
  const Plan of_machine = plan_of_config(run, &measured);
  EXPECT_EQ(of_machine.time_unit, "s");
  EXPECT_EQ(of_machine.options.balance, Balance::kMeasured);
  EXPECT_FALSE(of_machine.candidates.empty());
}

TEST_F(PlanTest, AChosenScheduleKeepsToTheDevicesMemory) {
  const Overrides chosen = {{"parallelism.pipeline_parallel_schedule", "auto"}};
  Overrides small = chosen;
  small.emplace_back("parallelism.device_memory", "1KB");
  const std::string message = refusal(config(small), 7);
  EXPECT_NE(message.find("no s"), std::string::npos) << message;
  EXPECT_NE(message.find("parallelism.device_memory = 1000B"), std::string::npos) << message;
  Overrides even = chosen;
  even.emplace_back("parallelism.partition", "even");
  EXPECT_FALSE(needs_measurement(config(even)));
  EXPECT_EQ(plan_of_config(config(even)).options.balance, Balance::kEven);
}

}  // namespace
}  // namespace sluice
