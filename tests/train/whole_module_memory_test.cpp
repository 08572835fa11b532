#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <numeric>

#include "base/log.h"
#include "engine/rank_threads.h"
#include "sluice/model.h"
#include "sluice/parts/observers.h"
#include "sluice/parts/transport.h"
#include "sluice/parts/whole_module.h"
#include "sluice/pipeline.h"
#include "sluice/trainer.h"
#include "train/pipeline_control.h"

namespace sluice::test::whole_module_memory_test {
namespace {

constexpr std::int64_t kWidth = 128, kLength = 64, kWords = 1000, kBlocks = 8, kRows = 2;

struct BlockImpl : torch::nn::Module {
  BlockImpl()
      : norm(torch::nn::LayerNormOptions({kWidth})),
        up(kWidth, 4 * kWidth),
        down(4 * kWidth, kWidth) {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
    const at::Tensor rates = torch::pow(100.0, -torch::arange(0, kWidth) / double(kWidth));
    table = register_buffer("table", torch::outer(torch::arange(kLength), rates).cos());
    mask = register_buffer("mask", torch::ones({kLength, kLength}).tril());
  }
  at::Tensor forward(const at::Tensor& x) {
    return x + down(torch::gelu(up(norm(torch::matmul(mask, x) * table))));
  }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
  at::Tensor table, mask;
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  NetImpl() : embed(kWords, kWidth), norm(torch::nn::LayerNormOptions({kWidth})), head(kWidth, 8) {
    register_module("embed", embed);
    register_module("blocks", blocks);
    for (std::int64_t i = 0; i < kBlocks; ++i) blocks->push_back(Block());
    register_module("norm", norm);
    register_module("head", head);
  }
  at::Tensor forward(at::Tensor x) {
    if (embed) x = embed(x);
    for (const auto& module : *blocks)
      if (auto* block = module->as<BlockImpl>()) x = block->forward(x);
    if (norm) x = norm(x);
    return head ? head(x) : x;
  }
  torch::nn::Embedding embed;
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm;
  torch::nn::Linear head;
};
TORCH_MODULE(Net);

Net dropping(const Kept& kept) {
  Net net;
  drop_unkept(*net, kept, net->embed, net->blocks, net->norm, net->head);
  return net;
}

template <typename Factory>
Model net_model(Factory factory) {
  Model model =
      from_module(factory, [](NetImpl& net, const at::Tensor& x) { return net.forward(x); },
                  {.input = "ids", .block_class = "Block"});
  model.inputs = {"ids", "y"};
  model.loss = mean_loss(
      [](const Values& out, const Values& in) { return torch::mse_loss(out["hidden"], in["y"]); });
  return model;
}

std::int64_t bytes_of(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

// Counts a rank's allocations from its first call of the factory.
class RankLedger {
 public:
  explicit RankLedger(int num_ranks) : ledger_(num_ranks) {}
  void begin() {
    if (!scope_) scope_ = std::make_unique<MemoryLedger::Scope>(ledger_, own_ = next_++);
  }
  std::int64_t end() {
    scope_.reset();
    return ledger_.peak_bytes(own_);
  }

 private:
  MemoryLedger ledger_;
  std::atomic<int> next_ = 0;
  static thread_local int own_;
  static thread_local std::unique_ptr<MemoryLedger::Scope> scope_;
};
thread_local int RankLedger::own_ = 0;
thread_local std::unique_ptr<MemoryLedger::Scope> RankLedger::scope_;

TEST(WholeModuleMemoryTest, ARankHasItsOwnParametersWhileItsStagesAreMade) {
  const std::int64_t whole = bytes_of(Net()->named_parameters().pairs());
  RankLedger ledger(5);
  const Model model = net_model([&](const Kept& kept) {
    ledger.begin();
    return dropping(kept);
  });
  EXPECT_LT(ledger.end(), 100);  // names and a few numbers
  for (const char* schedule : {"1F1B", "Interleaved1F1B"}) {
    RankLedger of_ranks(4);
    std::atomic<std::int64_t> all = 0;
    const Model own = net_model([&](const Kept& kept) {
      if (!kept.all()) of_ranks.begin();
      return dropping(kept);
    });
    run(own, {.num_ranks = 4, .schedule = schedule, .num_microbatches = 4},
        [&](Pipeline& pipeline) {
          const std::int64_t peak = of_ranks.end();
          for (const ParameterInfo& info : pipeline.named_parameters())
            all += static_cast<std::int64_t>(info.tensor.nbytes());
          const std::int64_t kept = bytes_of(pipeline.local_state_dict());
          EXPECT_LT(kept, whole / 2);
          EXPECT_GE(peak, kept);
          EXPECT_LT(peak, kept + whole / 50) << schedule << " rank " << pipeline.rank();
        });
    EXPECT_EQ(all, whole);
  }
}

struct ReachingImpl : NetImpl {
  ReachingImpl() {
    at::Tensor table = register_buffer("own", torch::zeros({2, 2}));
    table.accessor<float, 2>()[1][1] = 5;
  }
};

TEST(WholeModuleMemoryTest, WhereAConstructorReachesIntoMemoryAllOfItIsMadeAndALineSaysSo) {
  std::mutex mutex;
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel level, std::string_view message) {
    const std::lock_guard lock(mutex);
    if (level == LogLevel::kWarning) lines.emplace_back(message);
  });
  const Model model = net_model([](const Kept& kept) {
    auto net = std::make_shared<ReachingImpl>();
    drop_unkept(*net, kept, net->embed, net->blocks, net->norm, net->head);
    return std::static_pointer_cast<NetImpl>(net);
  });
  run(model, {.num_ranks = 2, .schedule = "1F1B", .num_microbatches = 2}, [](Pipeline& pipeline) {
    for (const auto& [name, tensor] : pipeline.local_state_dict())
      EXPECT_TRUE(name != "own" || tensor[1][1].item<float>() == 5);
  });
  set_log_sink({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].find("the factory of sluice::test::whole_module_memory_test::"), 0u)
      << lines[0];
  EXPECT_NE(lines[0].find("torch::kCPU"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[0].find('\n'), std::string::npos) << lines[0];
}

// Peak bytes of every rank in a step.
struct Peaks {
  std::vector<double> measured, predicted;
  std::vector<double> held;  // of these, held all the time
};
const ModelSpec& described() {
  static const ModelSpec spec =
      describe(net_model(dropping).layers,
               {{"ids", {{kRows, kLength}, at::kLong}}, {"y", {{kRows, kLength, 8}, at::kFloat}}});
  return spec;
}

Peaks peaks_of(const PipelineOptions& options) {
  const Model model = net_model(dropping);
  PipelineOptions of_rows = options;
  of_rows.microbatch_size = kRows;
  of_rows.step_end = StepEnd::kUpdate;
  const Plan plan = plan_pipeline(described(), of_rows);
  StepBatch batch;
  batch.step = 1;
  for (int m = 0; m < *options.num_microbatches; ++m) {
    batch.microbatches.push_back({{"ids", at::arange(kRows * kLength).view({kRows, kLength})},
                                  {"y", at::ones({kRows, kLength, 8})}});
    batch.counts.push_back(kRows);
  }
  Peaks peaks;
  const int ranks = *options.num_ranks;
  MemoryLedger ledger(ranks);
  run_ranks(make_local_transports(ranks), 1, &ledger, [&](Transport& transport) {
    Pipeline pipeline(model, plan, transport, {.ledger = &ledger});
    Trainer trainer(pipeline, {});
    for (int step = 0; step < 2; ++step) trainer.step(batch, 1e-3);
    const auto stats = PipelineControl(pipeline).gather_stats({});
    if (transport.rank() != 0) return;
    for (const RankStats& of_rank : stats)
      peaks.measured.push_back(static_cast<double>(of_rank.peak_bytes));
  });
  for (const RankPrediction& rank : plan.ranks) {
    peaks.predicted.push_back(static_cast<double>(rank.memory.total_bytes()));
    peaks.held.push_back(static_cast<double>(rank.memory.held_bytes()));
  }
  return peaks;
}

TEST(WholeModuleMemoryTest, BlocksThatRunTwiceKeepWhatEntersThemAsThePlanPredicts) {
  for (const int ranks : {1, 2}) {
    PipelineOptions options{.num_ranks = ranks, .schedule = "GPipe", .num_microbatches = 4};
    const Peaks once = peaks_of(options);
    const std::vector<std::pair<ActivationCheckpoint, double>> cases = {
        {ActivationCheckpoint::kFull, 0.5},
        {{ActivationCheckpoint::kClasses, {"Block"}}, 0.5},
        {{ActivationCheckpoint::kLayers, {"blocks.1", "blocks.6"}}, 0.9}};
    for (const auto& [named, at_most] : cases) {
      options.activation_checkpoint = named;
      const Peaks twice = peaks_of(options);
      ASSERT_EQ(twice.measured.size(), static_cast<std::size_t>(ranks));
      for (int rank = 0; rank < ranks; ++rank) {
        const double measured = twice.measured[rank];
        EXPECT_NEAR(measured / twice.predicted[rank], 1, 0.04) << ranks << " rank " << rank;
        const double held = once.held[rank];
        EXPECT_LT(measured - held, at_most * (once.measured[rank] - held))
            << ranks << " rank " << rank;
      }
    }
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_NEAR(once.measured[rank] / once.predicted[rank], 1, 0.04) << ranks << " rank " << rank;
  }
}

}  // namespace
}  // namespace sluice::test::whole_module_memory_test
