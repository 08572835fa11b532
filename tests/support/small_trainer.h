// Trains a tiny language model without LibTorch, in a chosen order of additions, with or without a
// planted bug, and writes its gradients, weights and metrics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice::test {

enum class PlantedBug {
  kNone,
  kScaledLayer,       // the gradient of one layer is multiplied by the degree
  kDroppedReduction,  // the gradients of one replica are missing in the sum
  kLabelsShiftedTwice,
  kMissingMicrobatch,  // its gradients and loss are not counted, its tokens are
  kWrongDivisor,       // divides by the microbatches of one replica
};

struct SmallTraining {
  std::uint64_t seed = 0;   // of weights and tokens
  std::uint64_t order = 0;  // of additions; 0: ascending
  PlantedBug bug = PlantedBug::kNone;
  int degree = 2;  // replicas
  int steps = 4;
  bool is_bfloat16 = false;  // rounds every result, and writes gradients as BF16
  bool uses_adamw = false;   // otherwise SGD
};

// Writes FOLDER/start.safetensors (the weights before training), FOLDER/metrics.jsonl,
// FOLDER/grads/grads-step-N.safetensors (N from 1) and FOLDER/weights/step-N/model.safetensors
// (after the update of step N).
void train_small_model(const SmallTraining& training, const std::string& folder);

// Writes float32 values, as BF16 if `is_bfloat16`.
struct SmallTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
void write_tensors(const std::string& path, const std::map<std::string, SmallTensor>& tensors,
                   bool is_bfloat16 = false);

}  // namespace sluice::test
