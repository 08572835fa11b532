// Runs a model of tests/reference as a chain of chunks on one rank, and returns its gradients by
// name.
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

class ChunkChain {
 public:
  // auxiliary: whether the last outputs include the model's auxiliary losses.
  ChunkChain(const ModelSpec& spec, const std::vector<int>& cuts, const LayerOptions& options = {},
             bool auxiliary = false);

  // Loads weights from a safetensors file below tests/. Tied uses take the weights of the first
  // use.
  void load(const std::string& path_below_tests);
  void initialize(std::uint64_t seed);
  void train(bool on);

  // Runs every chunk on detached inputs and returns the outputs of the last. The batch may lack the
  // values in Model::optional_inputs.
  Values forward(Values batch, std::uint64_t seed = 0, std::int64_t step = 1,
                 std::int64_t microbatch = 0);
  void backward(const at::Tensor& root);
  // Returns the gradients of trained parameters, named by first use. Tied uses are added in layer
  // order.
  std::map<std::string, at::Tensor> gradients();
  void clear_gradients();

  // The auxiliary losses among the outputs, each with its full name.
  const std::vector<AuxiliaryLoss>& auxiliary() const { return auxiliary_; }
  std::vector<Chunk>& chunks() { return chunks_; }
  const std::vector<Values>& inputs() const { return inputs_; }
  const std::vector<Values>& outputs() const { return outputs_; }

 private:
  std::vector<Chunk> chunks_;
  std::vector<std::string> optional_inputs_;
  std::vector<AuxiliaryLoss> auxiliary_;
  std::vector<Values> inputs_, outputs_;
};

// Tolerances for comparisons with transformers.
inline constexpr double kTolerance = 1e-5;          // of losses and logits
inline constexpr double kGradientTolerance = 1e-4;  // relative, of gradient norms
void expect_near(const at::Tensor& found, const nlohmann::json& expected, const std::string& what);
// expected: {"sum", "abs_sum", ...} of the whole tensor.
void expect_sums(const at::Tensor& found, const nlohmann::json& expected, const std::string& what);
void expect_gradient_norms(ChunkChain& model, const nlohmann::json& expected);

}  // namespace sluice::testing
