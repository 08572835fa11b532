// Compares the memory ledger with the operator rows (family/operators.h) for every layer of every
// family: fused and plain; trained, partly trained and frozen; forward and backward.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "layer/initialize_chunks.h"
#include "model/support.h"
#include "sluice/parts/observers.h"
#include "sluice/parts/stage.h"
#include "sluice/plan.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

// The length is a multiple of the block of keys, because scratch memory is allocated by blocks.
constexpr MicrobatchShape kOperatorShape{3, 64};
// Upper bound for bytes that no row counts: gradients of plain norm weights before they are summed,
// gradients of per-head norm weights in fused blocks, and a scalar.
constexpr double kMostBytes = 520;

// after_forward: live bytes after a forward. after_input: live bytes after the input gradient,
// without the pool of fused operators. pool: the size of this pool at the end. alone: the peak of a
// forward that keeps nothing.
struct LayerBytes {
  double after_forward = 0, after_input = 0, pool = 0, alone = 0;
};

at::Tensor ones_of(const ValueSpec& value) {
  const auto type = value.dtype == "int64" ? at::kLong : at::kFloat;
  return at::ones(value.sizes_at(kOperatorShape), type);
}

class LayerRun {
 public:
  LayerRun(const ModelSpec& model, const LayerSpec& layer, std::size_t index) {
    std::vector<std::string> names;
    bool flows = false;
    for (std::size_t i = 0; i < index; ++i) flows |= model.layers[i].trains();
    for (const std::string& name : layer.reads) {
      const ValueSpec* from = nullptr;
      for (std::size_t i = 0; i < index; ++i)
        for (const ValueSpec& value : model.layers[i].writes)
          if (value.name == name) from = &value;
      if (from) {
        names.push_back(name);
        inputs_.push_back({*from, flows});
      }
    }
    batch_ = model.inputs;
    stage_.emplace(0, Chunk({layer}, static_cast<int>(index), names, layer.writes));
    initialize_parameters(stage_->chunk(), 0);
    stage_->chunk().train(true);
    trains_ = flows || model.layers[index].trains();
  }

  // Runs on new threads, which have no pool of fused operators yet.
  LayerBytes measure() {
    run();  // makes what a module makes in its first forward, and the gradient sums
    LayerBytes bytes;
    std::thread([&] { bytes = run(); }).join();
    std::thread([&] { bytes.alone = alone(); }).join();
    return bytes;
  }

  bool has_backward() const { return trains_; }
  // Otherwise there is no I, and all memory stays until W.
  bool hands_gradient_on() const { return !inputs_.empty() && inputs_[0].second; }

 private:
  std::vector<at::Tensor> inputs() const {
    std::vector<at::Tensor> inputs;
    for (const auto& [value, flows] : inputs_)
      inputs.push_back(ones_of(value).set_requires_grad(flows && at::GradMode::is_enabled()));
    return inputs;
  }

  Values batch() const {
    Values batch;
    for (const ValueSpec& value : batch_) batch.set(value.name, ones_of(value));
    for (const char* absent : {"attention_mask", "position_ids"}) batch.set(absent, {});
    return batch;
  }

  double alone() {
    const at::NoGradGuard no_grad;
    const Values of_batch = batch();
    MemoryLedger ledger(1);
    const MemoryLedger::Scope scope(ledger, 0);
    for (int i = 0; i < 2; ++i) {
      stage_->forward({0, 1, 0}, inputs(), of_batch);
      stage_->forget(0);
    }
    return static_cast<double>(ledger.peak_bytes(0));
  }

  LayerBytes run() {
    MemoryLedger ledger(1);
    const MemoryLedger::Scope scope(ledger, 0);
    std::vector<at::Tensor> gradients;
    {
      const Values written = stage_->forward({0, 1, 0}, inputs(), batch());
      std::vector<at::Tensor> roots;
      for (const auto& [name, tensor] : written) roots.push_back(tensor);
      stage_->keep(0, roots);
      for (const at::Tensor& root : roots)
        gradients.push_back(root.requires_grad() ? at::empty(root.sizes(), at::kMeta)
                                                 : at::Tensor());
    }
    LayerBytes bytes;
    bytes.after_forward = static_cast<double>(ledger.live_bytes(0));
    if (!trains_) {
      stage_->forget(0);
      return bytes;
    }
    for (at::Tensor& gradient : gradients)
      if (gradient.defined()) gradient = at::ones(gradient.sizes());
    stage_->backward_input(0, std::move(gradients));
    gradients.clear();
    bytes.after_input = static_cast<double>(ledger.live_bytes(0));
    stage_->backward_weight(0);
    bytes.pool = static_cast<double>(ledger.live_bytes(0));
    bytes.after_input -= bytes.pool;
    return bytes;
  }

  std::vector<std::pair<ValueSpec, bool>> inputs_;
  std::vector<ValueSpec> batch_;
  std::optional<Stage> stage_;
  bool trains_ = false;
};

LayerBytes said_of(const LayerInfo& layer, std::int64_t vocab_size) {
  const auto at = [](const ShapePolynomial& bytes) { return bytes.at(kOperatorShape); };
  const LayerCost& cost = layer.cost;
  const double from_forward =
      at(cost.pooled_until_input) + at(cost.pooled_until_weight) + at(cost.pooled_in_forward);
  // If the head does not compute the loss, the loss is outside this layer.
  const bool has_loss = layer.role == LayerRole::kHead && !layer.computes_loss();
  const double loss = has_loss && at(cost.after_forward) > 0
                          ? static_cast<double>(kOperatorShape.tokens() * (4 * vocab_size + 8))
                          : 0.0;
  return {.after_forward = at(cost.after_forward) - loss + from_forward,
          .after_input = at(cost.after_input),
          .pool = at(cost.pooled_until_input) + at(cost.pooled_until_weight) +
                  at(cost.pooled_after_input) + at(cost.pooled_in_backward),
          .alone = at(cost.in_forward) + at(cost.pooled_in_forward)};
}

struct OperatorsOf {
  std::string model;
  nlohmann::json changed = {};
  bool drops = false;
};

class OperatorMemoryTest : public ::testing::TestWithParam<OperatorsOf> {
 protected:
  OperatorMemoryTest() {
    at::set_num_threads(1);
    nlohmann::json config = testing::read_json("reference/" + GetParam().model + "/config.json");
    if (!GetParam().changed.is_null()) config.update(GetParam().changed);
    test::write_file(folder_ / "config.json", config.dump());
  }

  void expect_counted(const Precision& precision) {
    const ModelSpec all = read_model_spec(folder_.str(), precision);
    const std::size_t norm = all.layers.size() - 2;
    const bool is_gpt2 = all.family == "gpt2";
    for (const std::string& pattern :
         {std::string("*"), all.layers[0].name + ".*", std::string(is_gpt2 ? "*.ln_*" : "*norm*"),
          all.layers[norm].name + ".*"}) {
      SCOPED_TRACE(pattern);
      const ModelSpec spec =
          plan_pipeline(all, {.seq_len = kOperatorShape.length, .trainable = {pattern}}).model;
      const std::vector<LayerSpec> layers = make_layers(spec, {.fused = precision.fused});
      for (std::size_t i = 0; i < layers.size(); ++i) {
        expect_counted(spec, layers[i], i, precision.fused);
      }
    }
  }

 private:
  void expect_counted(const ModelSpec& spec, const LayerSpec& layer, std::size_t index,
                      bool fused) {
    const LayerInfo& info = spec.layers[index];
    LayerRun run(spec, layer, index);
    const LayerBytes found = run.measure(), said = said_of(info, spec.vocab_size);
    // Also bounds the difference in bytes, because 5 % of a layer could hide a small part.
    const auto near = [&](const char* what, double counted, double expected, double most) {
      EXPECT_NEAR(counted, expected, std::min(0.05 * expected, most))
          << what << " of " << info.name;
    };
    near("F", found.after_forward, said.after_forward, kMostBytes);
    if (run.hands_gradient_on()) {
      near("I", found.after_input, said.after_input, kMostBytes);
      if (fused) near("pool", found.pool, said.pool, kMostBytes);
    } else if (!run.has_backward() && GetParam().drops && info.role == LayerRole::kBlock) {
      // The row adds the peaks for pairs of tokens and for tokens, although only the larger one
      // occurs. In short rows this is too much.
      EXPECT_NEAR(found.alone, said.alone, 0.25 * said.alone) << "alone of " << info.name;
    } else if (!run.has_backward()) {
      near("alone", found.alone, said.alone, 0.05 * said.alone);
    }
  }

  const test::TempDirectory folder_;
};

class FusedOperatorMemoryTest : public OperatorMemoryTest {};

TEST_P(FusedOperatorMemoryTest, ALedgerCountsWhatTheRowsSay) {
  expect_counted({});
  expect_counted({.loss_chunks = LossChunks::kOn});
  expect_counted({.loss_in_head = true});
}
TEST_P(OperatorMemoryTest, ALedgerCountsWhatTheRowsOfPlainOperatorsSay) {
  expect_counted({.fused = false});
}
TEST_P(OperatorMemoryTest, ALedgerCountsWhatTheRowsSayWhereSomeAreFused) { expect_counted({}); }

std::string name_of_operators(const ::testing::TestParamInfo<OperatorsOf>& info) {
  const std::string name = info.param.model.substr(info.param.model.find('/') + 1);
  return name + (info.param.changed.is_null() ? "" : "_changed");
}

const nlohmann::json kHeadsOf16 = {{"head_dim", 16}};

INSTANTIATE_TEST_SUITE_P(
    Every, FusedOperatorMemoryTest,
    ::testing::Values(OperatorsOf{"models/llama_tied"}, OperatorsOf{"models/gpt2"},
                      OperatorsOf{"models_extra/qwen3", kHeadsOf16},
                      OperatorsOf{"models_extra/gemma3", kHeadsOf16},
                      OperatorsOf{"models_extra/mixtral", kHeadsOf16},
                      OperatorsOf{"models_extra/starcoder2",
                                  {{"hidden_size", 64},
                                   {"num_attention_heads", 4},
                                   {"num_key_value_heads", 4},
                                   {"intermediate_size", 96}}},
                      OperatorsOf{"models_extra/gpt_neox", {{"hidden_size", 48}}}),
    name_of_operators);

INSTANTIATE_TEST_SUITE_P(
    Every, OperatorMemoryTest,
    ::testing::Values(
        OperatorsOf{"models/llama_tied"}, OperatorsOf{"models/gpt2"},
        OperatorsOf{"models_extra/biases"}, OperatorsOf{"models_extra/qwen3"},
        OperatorsOf{"models_extra/gemma2"}, OperatorsOf{"models_extra/gemma3"},
        OperatorsOf{"models_extra/olmo2_biases"}, OperatorsOf{"models_extra/llama_relu"},
        OperatorsOf{"models_extra/mixtral"}, OperatorsOf{"models_extra/qwen3_moe_some"},
        OperatorsOf{"models_extra/olmoe"}, OperatorsOf{"models_extra/gpt_neox"},
        OperatorsOf{"models_extra/gpt_neox_in_turn"}, OperatorsOf{"models_extra/phi3"},
        OperatorsOf{"models/llama_tied", {{"attention_dropout", 0.1}}, true},
        OperatorsOf{
            "models/gpt2", {{"attn_pdrop", 0.1}, {"resid_pdrop", 0.1}, {"embd_pdrop", 0.1}}, true},
        OperatorsOf{
            "models_extra/gpt_neox", {{"attention_dropout", 0.1}, {"hidden_dropout", 0.1}}, true}),
    name_of_operators);

}  // namespace
}  // namespace sluice
