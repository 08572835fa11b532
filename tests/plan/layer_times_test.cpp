#include "plan/predict/layer_times.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "sluice/model_spec.h"
#include "sluice/plan.h"
#include "support/expect_error.h"

namespace sluice::layer_times_test {
namespace {

ModelSpec llama() {
  return read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/models/llama_untied");
}

constexpr MicrobatchShape kShape{1, 32};

LayerTimes some_times() {
  LayerTimes times = without_times(llama(), kShape, OptimizerKind::kAdamW);
  times.of.cpu = "a processor";
  double next = 0.5;
  for (LayerTime& layer : times.layers) {
    layer.forward = next;
    layer.backward_input = next + 0.25;
    layer.backward_weight = next / 3;
    layer.backward = next * 1.7;
    layer.optimizer_step = 0.125;
    layer.cast = 0.0625;
    next += 0.1;
  }
  times.latency = 0.01;
  times.bandwidth = 1e9;
  times.action = 1e-5;
  times.reduce_loss = 0.002;
  times.reduce_norm = 0.003;
  times.parallel_ranks = 2;
  return times;
}

TEST(LayerTimesFileTest, ReadsWhatItWrote) {
  const LayerTimes times = some_times();
  const LayerTimes read = parse_layer_times(layer_times_json(times), "costs.json");
  EXPECT_EQ(read.layers, times.layers);
  EXPECT_EQ(read.latency, times.latency);
  EXPECT_EQ(read.bandwidth, times.bandwidth);
  EXPECT_EQ(read.action, times.action);
  EXPECT_EQ(read.reduce_loss, times.reduce_loss);
  EXPECT_EQ(read.reduce_norm, times.reduce_norm);
  EXPECT_EQ(read.parallel_ranks, times.parallel_ranks);
  EXPECT_EQ(read.of.model, times.of.model);
  EXPECT_EQ(read.of.microbatch.length, 32);
  EXPECT_EQ(layer_times_json(read), layer_times_json(times));
}

std::string refusal(const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json document = nlohmann::json::parse(layer_times_json(some_times()));
  change(document);
  const Error error = test::error_of([&] { parse_layer_times(document.dump(), "costs.json"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.where(), "costs.json");
  return error.fact();
}

TEST(LayerTimesFileTest, NamesTheFieldThatItCannotRead) {
  EXPECT_EQ(refusal([](auto& file) { file["layers"][2]["F"] = -1; }),
            "'layers[2].F' is not a number of at least 0");
  // 1e308 would overflow when multiplied by the number of microbatches.
  EXPECT_EQ(refusal([](auto& file) { file["layers"][1]["F"] = 1e308; }), "'layers[1].F' is 1e+308");
  EXPECT_EQ(refusal([](auto& file) { file["layers"][0].erase("W"); }), "'layers[0].W' is missing");
  EXPECT_EQ(refusal([](auto& file) { file["layers"][1]["role"] = "tail"; }),
            "'layers[1].role' is 'tail'");
  EXPECT_EQ(refusal([](auto& file) { file["of"]["seq_len"] = "32"; }),
            "'of.seq_len' is not a whole number of at least 1");
  EXPECT_EQ(refusal([](auto& file) { file["of"].erase("model"); }), "'of.model' is missing");
  EXPECT_EQ(refusal([](auto& file) { file["latencies"] = 1; }),
            "'latencies' is not a key of measured costs");
  EXPECT_EQ(refusal([](auto& file) { file["sluice_costs"] = 2; }), "'sluice_costs' is 2, not 1");
  EXPECT_EQ(refusal([](auto& file) { file["layers"] = nlohmann::json::array(); }),
            "'layers' is not a list with one object per layer");
}

TEST(LayerTimesFileTest, TakesBAsIAndWWhereItIsNotGiven) {
  nlohmann::json document = nlohmann::json::parse(layer_times_json(some_times()));
  document["layers"][0].erase("B");
  const LayerTimes times = parse_layer_times(document.dump(), "costs.json");
  EXPECT_EQ(times.layers[0].backward,
            times.layers[0].backward_input + times.layers[0].backward_weight);
}

TEST(LayerTimesFileTest, IsToldFromCostsOfStages) {
  EXPECT_TRUE(holds_layer_times(layer_times_json(some_times())));
  EXPECT_FALSE(holds_layer_times(R"([{"F": 1}])"));
  EXPECT_FALSE(holds_layer_times(R"({"stages": [{"F": 1}]})"));
  EXPECT_FALSE(holds_layer_times("no JSON"));
}

std::string difference(const std::function<void(TimedRun&)>& change) {
  const LayerTimes times = some_times();
  TimedRun wanted = times.of;
  change(wanted);
  return test::error_of([&] { require_times_of(times, llama(), wanted); }).fact();
}

TEST(LayerTimesTest, RefusesTimesOfAnotherRunSayingWhatDiffers) {
  EXPECT_EQ(difference([](TimedRun& run) { run.microbatch.length = 64; }),
            "the costs belong to another run: seq_len 32, not 64");
  EXPECT_EQ(difference([](TimedRun& run) {
              run.threads_per_rank = 4;
              run.operators = "off";
            }),
            "the costs belong to another run: threads_per_rank 1, not 4; operators auto, not off");
  EXPECT_NE(difference([](TimedRun& run) { run.model = "another"; }).find("the model has layers"),
            std::string::npos);
}

// Returns the error for a file whose fingerprint matches but whose layers do not.
std::string layer_difference(const std::function<void(std::vector<LayerTime>&)>& change) {
  LayerTimes times = some_times();
  times.file = "costs.json";
  const TimedRun wanted = times.of;
  change(times.layers);
  const Error error = test::error_of([&] { require_times_of(times, llama(), wanted); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.where(), "costs.json");
  return error.fact().substr(std::string("the costs belong to another run: ").size());
}

TEST(LayerTimesTest, NamesTheLayerThatIsNotTheModels) {
  EXPECT_EQ(layer_difference([](auto& layers) { layers.erase(layers.begin() + 2); }),
            "layers[2] is 'model.layers.2', where the model has 'model.layers.1'");
  EXPECT_EQ(layer_difference([](auto& layers) { layers.pop_back(); }),
            "layers[6] is missing, where the model has 'lm_head'");
  EXPECT_EQ(layer_difference([](auto& layers) { layers.push_back(layers.back()); }),
            "layers[7] is 'lm_head', where the model has no more layers");
  EXPECT_EQ(layer_difference([](auto& layers) { layers[1].name = "zz"; }),
            "layers[1] is 'zz', where the model has 'model.layers.0'");
  EXPECT_EQ(layer_difference([](auto& layers) { layers[6].role = LayerRole::kBlock; }),
            "layers[6] ('lm_head') has another role than in the model");
}

// The search sees only the bytes in its costs, not the model. Their sum must match the memory that
// plan.h predicts, with two exceptions: weights tied on one rank count twice, and for recomputed
// layers W needs less than I.
TEST(LayerTimesTest, BytesOfStagesAddUpToThePredictedMemory) {
  for (const char* name : {"llama_untied", "gpt2"}) {
    for (const bool fused : {true, false}) {
      for (const bool runs_again : {false, true}) {
        for (const char* schedule : {"GPipe", "1F1B", "Interleaved1F1B", "InterleavedZeroBubble",
                                     "ZBVZeroBubble", "DualPipeV"}) {
          PipelineOptions options{.num_ranks = 2, .num_microbatches = 8};
          options.seq_len = 32;
          options.schedule = schedule;
          if (runs_again) options.activation_checkpoint = ActivationCheckpoint::kFull;
          const std::string model = std::string(SLUICE_TEST_DATA) + "/reference/models/" + name;
          const Plan plan = plan_pipeline(read_model_spec(model, {.fused = fused}), options);
          const LayerTimes times = without_times(plan.model, plan.microbatch, options.optimizer);
          const Simulation simulation = simulate(plan.program, stage_costs(times, plan.partition));
          const bool ties_on_a_rank =
              !plan.partition.tie_groups.empty() && plan.partition.stage_map.rank_of(3) == 0;
          const double most = 1.05 + (runs_again ? 0.05 : 0) + (ties_on_a_rank ? 0.06 : 0);
          for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
            const auto predicted = static_cast<double>(plan.ranks[rank].memory.total_bytes());
            const double share = simulation.ranks[rank].peak_bytes / predicted;
            EXPECT_GT(share, 0.95) << name << fused << runs_again << schedule << rank;
            EXPECT_LT(share, most) << name << fused << runs_again << schedule << rank;
          }
        }
      }
    }
  }
}

TEST(LayerTimesTest, WarnsOfAnotherProcessor) {
  const LayerTimes times = some_times();
  TimedRun wanted = times.of;
  EXPECT_EQ(require_times_of(times, llama(), wanted), "");
  wanted.cpu = "another one";
  EXPECT_NE(require_times_of(times, llama(), wanted).find("'a processor'"), std::string::npos);
}

TEST(LayerTimesTest, TellModelsApartByWhatDecidesTimes) {
  ModelSpec model = llama();
  const std::string whole = fingerprint_of(model);
  EXPECT_EQ(fingerprint_of(llama()), whole);
  model.layers[1].parameters[0].trainable = false;
  EXPECT_NE(fingerprint_of(model), whole);
  model = llama();
  model.layers[1].parameters[0].shape[0] += 1;
  EXPECT_NE(fingerprint_of(model), whole);
}

TEST(LayerTimesTest, AddUpToTheCostsOfStages) {
  const ModelSpec model = llama();
  const LayerTimes times = some_times();
  const Partition partition = make_partition(model, {.num_ranks = 2});
  const Costs costs = stage_costs(times, partition);
  ASSERT_EQ(costs.per_stage.size(), 2u);
  double forward = 0, once_a_step = 0;
  for (const int layer : partition.stages[1].layers) {
    forward += times.layers[static_cast<std::size_t>(layer)].forward;
    once_a_step += times.layers[static_cast<std::size_t>(layer)].optimizer_step +
                   times.layers[static_cast<std::size_t>(layer)].cast;
  }
  EXPECT_DOUBLE_EQ(costs.per_stage[1].forward, forward);
  EXPECT_DOUBLE_EQ(costs.per_stage[1].optimizer_step, once_a_step);
  ASSERT_EQ(costs.message_bytes.size(), 1u);
  EXPECT_EQ(costs.message_bytes[0],
            stage_shapes(model, partition, 1, 32)[0].output.back() * 32 * 4.0);
}

TEST(LayerTimesTest, CountAlikeLayersOnce) {
  const std::vector<detail::LayerGroup> groups = detail::layer_groups(llama());
  ASSERT_EQ(groups.size(), 6u);
  EXPECT_EQ(groups.back().layers.size(), 2u);
  for (std::size_t block = 1; block <= 4; ++block) EXPECT_EQ(groups[block].measured_as, 1);
  ModelSpec model = llama();
  model.layers[3].parameters[0].trainable = false;
  EXPECT_EQ(detail::layer_groups(model)[3].measured_as, 3);
}

TEST(LayerTimesTest, MakeAPredictionInSeconds) {
  PipelineOptions options{.num_ranks = 2, .num_microbatches = 4};
  options.seq_len = 32;
  options.times = std::make_shared<const LayerTimes>(some_times());
  options.balance = Balance::kMeasured;
  const Plan plan = plan_pipeline(llama(), options);
  EXPECT_EQ(plan.time_unit, "s");
  EXPECT_EQ(plan.options.balance, Balance::kMeasured);
  double busiest = 0;
  for (const RankPrediction& rank : plan.ranks) busiest = std::max(busiest, rank.busy);
  EXPECT_GT(plan.simulation.makespan, busiest);
  EXPECT_EQ(plan.costs.per_stage.size(), 2u);
}

TEST(LayerTimesTest, NoSplitIsFasterThanTheMeasuredOne) {
  PipelineOptions options{.num_ranks = 2, .num_microbatches = 4};
  options.seq_len = 32;
  options.times = std::make_shared<const LayerTimes>(some_times());
  const auto slowest = [](const Plan& plan) {
    std::vector<double> loads(2, 0);
    for (const StageContent& stage : plan.partition.stages) {
      for (const int layer : stage.layers)
        loads[static_cast<std::size_t>(stage.rank)] +=
            step_time(some_times().layers[static_cast<std::size_t>(layer)], 4);
    }
    return std::max(loads[0], loads[1]);
  };
  options.balance = Balance::kMeasured;
  const double best = slowest(plan_pipeline(llama(), options));
  options.balance = Balance::kEven;
  for (const char* cut : {"model.layers.1", "model.layers.2", "model.layers.3"}) {
    options.partition.split_points = {cut};
    EXPECT_GE(slowest(plan_pipeline(llama(), options)), best) << cut;
  }
}

TEST(LayerTimesTest, CountedOperationsSplitWithoutAMeasurement) {
  PipelineOptions options{.num_ranks = 2, .num_microbatches = 4};
  options.balance = Balance::kCost;
  const Plan plan = plan_pipeline(llama(), options);
  EXPECT_EQ(plan.time_unit, "GFLOP");
  options.balance = Balance::kMeasured;
  EXPECT_NE(test::message_of([&] {
              plan_pipeline(llama(), options);
            }).find("a measured split needs times of the layers"),
            std::string::npos);
}

TEST(LayerTimesTest, ASplitThatDoesNotFitIsNotTaken) {
  PipelineOptions options{.num_ranks = 2, .num_microbatches = 8};
  options.balance = Balance::kCost;
  const auto peak = [](const Plan& plan) {
    std::int64_t most = 0;
    for (const RankPrediction& rank : plan.ranks) most = std::max(most, rank.memory.total_bytes());
    return most;
  };
  const Plan free = plan_pipeline(llama(), options);
  std::int64_t least = peak(free);
  PipelineOptions by_name = options;
  by_name.balance = Balance::kEven;
  for (const char* cut : {"model.layers.1", "model.layers.2", "model.layers.3"}) {
    by_name.partition.split_points = {cut};
    least = std::min(least, peak(plan_pipeline(llama(), by_name)));
  }
  options.memory_per_rank = least;
  EXPECT_EQ(peak(plan_pipeline(llama(), options)), least);
  options.memory_per_rank = least / 4;
  const Error error = test::error_of([&] { plan_pipeline(llama(), options); });
  EXPECT_EQ(error.kind(), ErrorKind::kMemory);
  EXPECT_TRUE(error.fact().starts_with("no split fits into memory")) << error.fact();
}

}  // namespace
}  // namespace sluice::layer_times_test
