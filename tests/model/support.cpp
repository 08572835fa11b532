#include "model/support.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <fstream>

#include "base/name_pattern.h"
#include "io/safetensors.h"
#include "layer/crossing.h"
#include "layer/initialize_chunks.h"

namespace sluice::testing {
namespace {

std::string path_of(const std::string& path_below_tests) {
  return std::string(SLUICE_TEST_DATA) + "/" + path_below_tests;
}

std::vector<float> floats(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kFloat).contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

}  // namespace

nlohmann::json read_json(const std::string& path_below_tests) {
  return nlohmann::json::parse(std::ifstream(path_of(path_below_tests)));
}

at::Tensor int_tensor(const nlohmann::json& rows) {
  std::vector<std::int64_t> flat;
  for (const auto& row : rows) {
    for (const std::int64_t id : row) flat.push_back(id);
  }
  return at::tensor(flat, at::kLong).view({static_cast<std::int64_t>(rows.size()), -1});
}

ChunkChain::ChunkChain(const ModelSpec& spec, const std::vector<int>& cuts,
                       const LayerOptions& options, bool auxiliary) {
  at::set_num_threads(1);  // for tiny models, starting threads takes longer than the work
  const Model model = causal_lm(spec, options);
  const std::vector<LayerSpec>& layers = model.layers;
  optional_inputs_ = model.optional_inputs;
  std::vector<std::string> outputs = model.outputs;
  for (const AuxiliaryLoss& loss : auxiliary ? model.auxiliary : std::vector<AuxiliaryLoss>()) {
    for (const LayerSpec& layer : layers) {
      for (const std::string& value : layer.writes) {
        if (!matches_pattern(loss.value, value)) continue;
        auxiliary_.push_back({.value = value, .scale = loss.scale});
        outputs.push_back(value);
      }
    }
  }
  auto crossing = values_crossing_cuts(layers, cuts, model.inputs, outputs);
  std::vector<int> bounds{0};
  bounds.insert(bounds.end(), cuts.begin(), cuts.end());
  bounds.push_back(static_cast<int>(layers.size()));
  crossing.insert(crossing.begin(), std::vector<std::string>{});
  crossing.push_back(outputs);
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    chunks_.emplace_back(
        std::vector<LayerSpec>(layers.begin() + bounds[i], layers.begin() + bounds[i + 1]),
        bounds[i], crossing[i], crossing[i + 1]);
  }
}

void ChunkChain::load(const std::string& path_below_tests) {
  const at::NoGradGuard no_grad;
  const SafetensorsReader file(path_of(path_below_tests));
  for (Chunk& chunk : chunks_) {
    for (ParameterInfo& parameter : chunk.parameters()) {
      file.read_into(parameter.tied_to.empty() ? parameter.name : parameter.tied_to,
                     parameter.tensor);
    }
  }
}

void ChunkChain::initialize(std::uint64_t seed) {
  for (Chunk& chunk : chunks_) initialize_parameters(chunk, seed);
}

void ChunkChain::train(bool on) {
  for (Chunk& chunk : chunks_) chunk.train(on);
}

Values ChunkChain::forward(Values batch, std::uint64_t seed, std::int64_t step,
                           std::int64_t microbatch) {
  for (const std::string& name : optional_inputs_)
    if (!batch.has(name)) batch.set(name, {});
  inputs_.assign(1, {});
  outputs_.clear();
  for (Chunk& chunk : chunks_) {
    outputs_.push_back(chunk.forward(inputs_.back(), batch, seed, step, microbatch));
    Values next;
    for (const auto& [name, tensor] : outputs_.back()) {
      next.set(name, tensor.detach().requires_grad_(tensor.requires_grad()));
    }
    inputs_.push_back(next);
  }
  inputs_.pop_back();
  return outputs_.back();
}

void ChunkChain::backward(const at::Tensor& root) {
  root.backward();
  for (std::size_t i = chunks_.size(); i-- > 1;) {
    std::vector<at::Tensor> crossed, gradients;
    for (const auto& [name, tensor] : inputs_[i]) {
      if (!tensor.grad().defined()) continue;  // the loss does not depend on this value
      crossed.push_back(outputs_[i - 1].get(name));
      gradients.push_back(tensor.grad());
    }
    torch::autograd::backward(crossed, gradients);
  }
}

std::map<std::string, at::Tensor> ChunkChain::gradients() {
  std::map<std::string, at::Tensor> sums;
  for (Chunk& chunk : chunks_) {
    for (const ParameterInfo& parameter : chunk.parameters()) {
      if (!parameter.trainable) continue;
      at::Tensor& sum = sums[parameter.tied_to.empty() ? parameter.name : parameter.tied_to];
      sum = sum.defined() ? sum + parameter.tensor.grad() : parameter.tensor.grad();
    }
  }
  return sums;
}

void ChunkChain::clear_gradients() {
  for (Chunk& chunk : chunks_) {
    for (ParameterInfo& parameter : chunk.parameters()) parameter.tensor.mutable_grad().reset();
  }
}

void expect_near(const at::Tensor& found, const nlohmann::json& expected, const std::string& what) {
  const std::vector<float> values = floats(found);
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], expected[i].get<double>(), kTolerance) << what;
}

void expect_sums(const at::Tensor& found, const nlohmann::json& expected, const std::string& what) {
  const double scale = expected["abs_sum"];
  EXPECT_NEAR(found.to(at::kDouble).sum().item<double>(), expected["sum"].get<double>(),
              kTolerance * scale)
      << what;
  EXPECT_NEAR(found.to(at::kDouble).abs().sum().item<double>(), scale, kTolerance * scale) << what;
}

// Bound for gradients that are zero up to rounding, such as a key's bias without rotary positions.
constexpr double kNoGradient = 1e-8;

void expect_gradient_norms(ChunkChain& model, const nlohmann::json& expected) {
  const auto gradients = model.gradients();
  EXPECT_EQ(gradients.size(), expected.size());
  for (const auto& [name, norm] : expected.items()) {
    ASSERT_TRUE(gradients.count(name)) << name;
    const double found = gradients.at(name).to(at::kDouble).norm().item<double>();
    EXPECT_NEAR(found, norm.get<double>(), kGradientTolerance * norm.get<double>() + kNoGradient)
        << name;
  }
}

}  // namespace sluice::testing
