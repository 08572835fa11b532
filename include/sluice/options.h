// Holds the options of a training step.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

enum class OptimizerKind {
  kAdamW,  // Loshchilov and Hutter, arXiv:1711.05101; state: two numbers per parameter
  kSgd,
  kSgdMomentum,  // kSgd with OptimizerOptions::momentum; state: one number per parameter
};

// In OptimizerOptions::no_decay: all parameters with at most one dimension.
inline constexpr const char* kNormsAndBiases = "norms-and-biases";

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  // Base learning rate, at least 0.
  double lr = 3e-4;
  // Each in [0, 1).
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  // A step subtracts lr * weight_decay * parameter.
  double weight_decay = 0.1;
  // Patterns of full names of parameters that do not decay ("*.bias"), or kNormsAndBiases.
  std::vector<std::string> no_decay = {};
  // Gradients are clipped to this norm. 0: no clipping.
  double max_norm = 1.0;
  // Of kSgd, in [0, 1), as torch.optim.SGD without dampening.
  double momentum = 0.0;
};

enum class Decay { kConstant, kLinear, kCosine };

struct LearningRateOptions {
  std::int64_t warmup_steps = 0;
  // Instead of warmup_steps: a share of all steps, in [0, 1].
  double warmup_ratio = 0.0;
  Decay decay = Decay::kConstant;
  // In [0, 1].
  double min_lr_factor = 0.0;
};

// Returns the learning rate of step k of N, both 1-based. w is warmup_steps, or the steps of
// warmup_ratio, rounded up as in Hugging Face's Trainer.
//
//     k <= w:     base * k / w
//     k >  w:     t = (k - w) / (N - w), m = min_lr_factor
//       constant  base
//       linear    base * (1 - (1 - m) t)
//       cosine    base * (m + (1 - m) (1 + cos(pi t)) / 2)     (arXiv:1608.03983)
double learning_rate(std::int64_t step, std::int64_t num_steps, double base,
                     const LearningRateOptions& options);

// The loss that a step differentiates.
struct GradientScale {
  enum Kind {
    kTokens,        // sum of token losses / counted tokens of the step
    kMicrobatches,  // mean of the microbatches' mean losses
    kSumOfMeans,    // sum of the microbatches' mean losses
    kDivisor,
  };
  Kind kind;
  double divisor;  // above 0, for kDivisor only

  GradientScale(Kind of = kTokens, double by = 1.0) : kind(of), divisor(by) {}
  friend bool operator==(const GradientScale&, const GradientScale&) = default;
};

// Layers to recompute in the backward from their inputs.
struct ActivationCheckpoint {
  enum Kind {
    kNone,
    kFull,     // every block (LayerRole::kBlock)
    kClasses,  // layers with a module of these classes (torch::nn::Module::name())
    kLayers,
  };
  Kind kind;
  std::vector<std::string> names;  // for kClasses and kLayers

  ActivationCheckpoint(Kind of = kNone, std::vector<std::string> which = {})
      : kind(of), names(std::move(which)) {}
  friend bool operator==(const ActivationCheckpoint&, const ActivationCheckpoint&) = default;
};

// Data parallelism: replicas of the pipeline, each with its own rows.
//
// With kExact, a step's microbatches (replica 0 first) form `shards` equal ranges. Gradients are
// summed in order in each range. A balanced binary tree adds the ranges' sums: [0, n) is [0, n/2) +
// [n/2, n). Every degree that divides the shards gets the same bits. With kFast, each replica sums
// its microbatches' gradients, and the replicas' sums are added in order.
enum class Reduction : std::uint8_t { kExact, kFast };

struct DataParallel {
  int degree = 1;
  // A multiple of the degree that divides the microbatches of all replicas. 0: the degree.
  int shards = 0;
  // Shards the optimizer state: each replica updates a part of the parameters.
  bool zero1 = false;
  // Also shards the parameters (UNSHARD, RESHARD).
  bool zero3 = false;
  Reduction reduction = Reduction::kExact;
  bool per_microbatch = false;  // reduces gradients after every backward

  int num_shards() const { return shards > 0 ? shards : degree; }
  friend bool operator==(const DataParallel&, const DataParallel&) = default;
};

// Tensor parallelism: several ranks compute each layer together. A balanced binary tree adds the
// partial sums of a layer's `slices`, so results depend on the slices but not on the degree. The
// degree must be a power of two that divides the slices, or equal their number.
struct TensorParallel {
  int degree = 1;
  // 0: the degree.
  int slices = 0;
  // Sequence parallelism: also divides activations between these layers along the sequence, with
  // the same results.
  bool sequence = true;

  int num_slices() const { return slices > 0 ? slices : degree; }
  friend bool operator==(const TensorParallel&, const TensorParallel&) = default;
};

// `degree` neighboring replicas share the experts of each layer and exchange tokens. A rank adds up
// its experts' gradients over all tokens that it receives, so the bits depend on the degree.
struct ExpertParallel {
  int degree = 1;  // divides the replicas and the experts

  friend bool operator==(const ExpertParallel&, const ExpertParallel&) = default;
};

enum class DeviceKind : std::uint8_t {
  kAuto,  // kCuda if the machine has as many devices as ranks, else kCpu
  kCpu,
  kCuda,  // device i for the machine's i-th rank
};

// How a checkpoint becomes visible atomically.
enum class Commit : std::uint8_t {
  kRename,  // directory is written under another name, then renamed
  kMarker,  // valid once manifest.json exists, for storage without atomic renames
};

}  // namespace sluice
