// A model of tests/reference in chunks, one after the other on one rank, and its gradients by name.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sluice/causal_lm.h"
#include "sluice/model_spec.h"
#include "sluice/parts/chunk.h"

namespace sluice::testing {

nlohmann::json read_json(const std::string& path_below_tests);
at::Tensor int_tensor(const nlohmann::json& rows);

// The model of `spec` cut before the layers `cuts`.
class ChunkChain {
 public:
  // auxiliary: whether the auxiliary losses of the model are among its last outputs.
  ChunkChain(const ModelSpec& spec, const std::vector<int>& cuts, const LayerOptions& options = {},
             bool auxiliary = false);

  // Weights of a safetensors file below tests/; a tied use takes those of the first use.
  void load(const std::string& path_below_tests);
  void initialize(std::uint64_t seed);
  void train(bool on);

  // Forward of every chunk, each on detached inputs; returns the outputs of the last. The batch may
  // lack what Model::optional_inputs names.
  Values forward(Values batch, std::uint64_t seed = 0, std::int64_t step = 1,
                 std::int64_t microbatch = 0);
  // Backward from `root`, a function of the last outputs, through every chunk.
  void backward(const at::Tensor& root);
  // Gradients of the trained parameters, by first use; uses are added in the order of the layers.
  std::map<std::string, at::Tensor> gradients();
  void clear_gradients();

  // Those that are, each under its whole name.
  const std::vector<AuxiliaryLoss>& auxiliary() const { return auxiliary_; }
  std::vector<Chunk>& chunks() { return chunks_; }
  // The values that entered each chunk in the last forward, and those that left it.
  const std::vector<Values>& inputs() const { return inputs_; }
  const std::vector<Values>& outputs() const { return outputs_; }

 private:
  std::vector<Chunk> chunks_;
  std::vector<std::string> optional_inputs_;
  std::vector<AuxiliaryLoss> auxiliary_;
  std::vector<Values> inputs_, outputs_;
};

// Against transformers' numbers.
inline constexpr double kTolerance = 1e-5;          // of losses and logits
inline constexpr double kGradientTolerance = 1e-4;  // relative, of gradient norms
void expect_near(const at::Tensor& found, const nlohmann::json& expected, const std::string& what);
// expected: {"sum", "abs_sum", ...} of the whole tensor.
void expect_sums(const at::Tensor& found, const nlohmann::json& expected, const std::string& what);
// expected: {name: norm}, neither more nor fewer names.
void expect_gradient_norms(ChunkChain& model, const nlohmann::json& expected);

}  // namespace sluice::testing
