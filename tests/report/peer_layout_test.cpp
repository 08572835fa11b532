#include "report/peer_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "plan/partition/layout_text.h"
#include "sluice/error.h"
#include "support/expect_error.h"

namespace sluice::peer_layout_test {
namespace {

std::vector<std::vector<int>> layers_of(const Partition& partition) {
  std::vector<std::vector<int>> layers;
  for (const StageContent& stage : partition.stages) layers.push_back(stage.layers);
  return layers;
}

Partition split_of(const ModelSpec& model, int num_ranks, const ModuleNames& modules,
                   std::vector<std::string> cuts = {}) {
  PartitionOptions options;
  options.schedule.reset();
  options.num_ranks = num_ranks;
  options.modules = modules;
  options.cuts = std::move(cuts);
  return make_partition(model, options);
}

// Cuts at random places, but never between norm and head.
ModuleNames random_modules(const ModelSpec& model, int num_stages, std::mt19937& random) {
  std::vector<int> places(model.layers.size() - 2);
  std::iota(places.begin(), places.end(), 1);
  std::shuffle(places.begin(), places.end(), random);
  places.resize(num_stages - 1);
  std::sort(places.begin(), places.end());
  ModuleNames modules(1);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (std::binary_search(places.begin(), places.end(), static_cast<int>(i)))
      modules.emplace_back();
    modules.back().push_back(model.layers[i].name);
  }
  return modules;
}

TEST(PeerLayoutTest, ReadsBackTheSplitOf60RandomCases) {
  std::mt19937 random(20260827);
  const auto below = [&](int limit) { return static_cast<int>(random() % limit); };
  int cut_after_layers = 0;
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    const int num_blocks = 2 + below(60);
    const int num_ranks = 1 + below(std::min(num_blocks, 8));
    const int per_rank = 1 + below(num_blocks / num_ranks);
    const ModelSpec model = model_spec_of_blocks(num_blocks);
    const Partition split =
        split_of(model, num_ranks, random_modules(model, num_ranks * per_rank, random));
    for (const char* trainer : {"torchtitan", "automodel", "torch", "megatron"}) {
      SCOPED_TRACE(trainer);
      const Json emitted = peer_layout_json(trainer, {.model = model, .partition = split});
      const Json* lists = emitted.find("module_fqns_per_model_part");
      const std::string text =
          lists ? lists->dump() : emitted.at("pipeline_model_parallel_layout").text();
      const Partition back = split_of(model, num_ranks, detail::modules_of_layout(model, text));
      EXPECT_EQ(layers_of(back), layers_of(split)) << text;
      EXPECT_EQ(back.stage_map, split.stage_map);
    }
    const bool has_decoders = std::ranges::all_of(
        split.stages, [](const StageContent& stage) { return stage.num_layers > 0; });
    if (!has_decoders) continue;
    ++cut_after_layers;
    const Json emitted = peer_layout_json("neuronx", {.model = model, .partition = split});
    std::vector<std::string> cuts;
    for (const Json& cut : emitted.at("pipeline_cuts").list()) cuts.push_back(cut.text());
    const Partition back = split_of(model, num_ranks, {}, cuts);
    EXPECT_EQ(layers_of(back), layers_of(split));
  }
  EXPECT_GT(cut_after_layers, 10);
}

class PeerLayoutOfPlan : public ::testing::Test {
 protected:
  ModelSpec model_ = model_spec_of_blocks(8);
  Schedule schedule_ = make_schedule("Interleaved1F1B",
                                     {.num_ranks = 2, .stages_per_rank = 2, .num_microbatches = 4});
  Partition split_ = split_of(model_, 2, detail::modules_of_layout(model_, "Et|(tt|)*2t*3L"));
  PeerLayout layout() {
    return {.model = model_, .partition = split_, .schedule = &schedule_, .microbatch_size = 2};
  }
};

TEST_F(PeerLayoutOfPlan, WritesTheLinesOfEachTrainer) {
  EXPECT_EQ(peer_layout_text("torchtitan", layout()),
            R"(# torchtitan: arguments of ParallelismConfig
pipeline_parallel_degree=2,
pipeline_parallel_schedule="Interleaved1F1B",
num_pp_microbatches=4,
module_fqns_per_model_part=[
    ["tok_embeddings", "layers.0"],
    ["layers.1", "layers.2"],
    ["layers.3", "layers.4"],
    ["layers.5", "layers.6", "layers.7", "norm", "lm_head"],
],
)");
  EXPECT_EQ(peer_layout_text("automodel", layout()), R"(# AutoModel: keys of a recipe
distributed:
  pp_size: 2
  pipeline:
    pp_schedule: "interleaved1f1b"
    pp_microbatch_size: 2
    module_fqns_per_model_part:
      - ["model.embed_tokens", "model.layers.0", "model.rotary_emb"]
      - ["model.layers.1", "model.layers.2", "model.rotary_emb"]
      - ["model.layers.3", "model.layers.4", "model.rotary_emb"]
      - ["model.layers.5", "model.layers.6", "model.layers.7", "model.norm", "lm_head", "model.rotary_emb"]
step_scheduler:
  local_batch_size: 8
)");
  EXPECT_EQ(peer_layout_text("megatron", layout()),
            R"(# Megatron-LM: arguments; Megatron-Bridge: cfg.model.* of these names
--pipeline-model-parallel-size 2
--pipeline-model-parallel-layout "Et|(tt|)*2t*3L"
--micro-batch-size 2
--global-batch-size 8
)");
  EXPECT_EQ(peer_layout_text("neuronx", layout()),
            R"(# NeuronX Distributed: arguments of neuronx_distributed_config
pipeline_parallel_size=2,
pipeline_config={
    "num_microbatches": 4,
    "virtual_pipeline_size": 2,
    "pipeline_cuts": ["model.layers.0", "model.layers.2", "model.layers.4"],
},
)");
}

TEST_F(PeerLayoutOfPlan, WritesMegatronsCountsWhereTheyDescribeTheSplit) {
  split_ = split_of(model_, 4, detail::modules_of_layout(model_, "Et|(tt|)*2t*3L"));
  const std::string text = peer_layout_text("megatron", {.model = model_, .partition = split_});
  EXPECT_NE(text.find("--decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 3"),
            std::string::npos)
      << text;
  split_ = split_of(model_, 4, detail::modules_of_layout(model_, "Et|tt|t*3|ttL"));
  EXPECT_EQ(peer_layout_text("megatron", {.model = model_, .partition = split_}).find("decoder"),
            std::string::npos);
}

TEST_F(PeerLayoutOfPlan, NamesTheFileOfAnOrderWithoutAName) {
  schedule_.name = "searched";
  const Error error = test::error_of([&] { peer_layout_text("torchtitan", layout()); });
  EXPECT_EQ(error.fact(), "torchtitan has no name for the order 'searched'");
  PeerLayout with_file = layout();
  with_file.csv_file = "order.csv";
  EXPECT_NE(peer_layout_text("torchtitan", with_file)
                .find("pipeline_parallel_schedule=\"Interleaved1F1B\",\n"
                      "pipeline_parallel_schedule_csv=\"order.csv\",\n"),
            std::string::npos);
  const std::string torch = peer_layout_text("torch", with_file);
  EXPECT_NE(torch.find("schedule._load_csv(\"order.csv\")"), std::string::npos) << torch;
  EXPECT_EQ(peer_layout_json("torch", with_file).at("schedule_csv").text(), to_csv(schedule_.rows));
}

TEST_F(PeerLayoutOfPlan, RefusesWhatATrainerCannotRun) {
  const auto refusal = [&](const std::string& trainer) {
    return test::error_of([&] { peer_layout_text(trainer, layout()); }).fact();
  };
  EXPECT_EQ(refusal("megatorn"), "unknown trainer 'megatorn'");
  schedule_ = make_schedule("ZBVZeroBubble", {.num_ranks = 2, .num_microbatches = 4});
  split_.stage_map = schedule_.stage_map;
  EXPECT_EQ(refusal("megatron"), "megatron cannot place stages on ranks [0,1,1,0]");
  EXPECT_NE(peer_layout_text("torchtitan", layout()).find("\"ZBVZeroBubble\""), std::string::npos);
  schedule_ = make_schedule("InterleavedZeroBubble",
                            {.num_ranks = 2, .stages_per_rank = 2, .num_microbatches = 4});
  split_.stage_map = schedule_.stage_map;
  EXPECT_EQ(refusal("neuronx"), "neuronx cannot run the schedule InterleavedZeroBubble");
  split_ = split_of(model_, 2, detail::modules_of_layout(model_, "E|t*8L"));
  schedule_ = make_schedule("1F1B", {.num_ranks = 2, .num_microbatches = 4});
  EXPECT_EQ(refusal("neuronx"),
            "stage 0 has no decoder layer, but NeuronX cuts only between decoder layers");
}

}  // namespace
}  // namespace sluice::peer_layout_test
