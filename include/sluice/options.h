// Holds the options of a training step. Needs no LibTorch.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

enum class OptimizerKind {
  kAdamW,  // Loshchilov and Hutter, arXiv:1711.05101; two numbers per parameter
  kSgd,    // without momentum
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;

  // Learning rate before LearningRateOptions. At least 0.
  double lr = 3e-4;

  // Decay rates of AdamW's moments, each in [0, 1). Values nearer to 1 react more slowly.
  std::array<double, 2> betas = {0.9, 0.95};

  // Added to AdamW's denominator. Larger values damp updates of parameters with tiny gradients.
  double eps = 1e-8;

  // Fraction that a parameter loses at each step, times the learning rate.
  double weight_decay = 0.1;

  // Patterns of full names of parameters without weight decay ("*.bias").
  std::vector<std::string> no_decay = {};

  // Gradients are scaled so that their norm is at most this. 0: no clipping.
  double max_norm = 1.0;
};

enum class Decay { kConstant, kLinear, kCosine };

// How the learning rate changes over the steps.
struct LearningRateOptions {
  // Steps over which the rate grows linearly to OptimizerOptions::lr.
  std::int64_t warmup_steps = 0;

  // Curve from the end of the warm-up to the last step.
  Decay decay = Decay::kConstant;

  // The decay ends at lr * min_lr_factor, in [0, 1].
  double min_lr_factor = 0.0;
};

// Returns the learning rate of step k of N, both 1-based, with w = warmup_steps:
//
//     k <= w:     base * k / w
//     k >  w:     t = (k - w) / (N - w), m = min_lr_factor
//       constant  base
//       linear    base * (1 - (1 - m) t)
//       cosine    base * (m + (1 - m) (1 + cos(pi t)) / 2)     (arXiv:1608.03983)
double learning_rate(std::int64_t step, std::int64_t num_steps, double base,
                     const LearningRateOptions& options);

// The quantity that a step differentiates.
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

// Layers that keep only their inputs and run again in the backward.
struct ActivationCheckpoint {
  enum Kind {
    kNone,
    kFull,     // every block (LayerRole::kBlock)
    kClasses,  // layers with a module of these classes (torch::nn::Module::name())
    kLayers,   // layers with these names
  };
  Kind kind;
  std::vector<std::string> names;  // for kClasses and kLayers

  ActivationCheckpoint(Kind of = kNone, std::vector<std::string> which = {})
      : kind(of), names(std::move(which)) {}
  friend bool operator==(const ActivationCheckpoint&, const ActivationCheckpoint&) = default;
};

// Data parallelism: replicas of the pipeline, each with its own rows.
//
// With kExact, the step's microbatches (replica 0 first) are divided into `shards` equal ranges,
// each summed in order. A balanced binary tree adds the ranges: [0, n) is [0, n/2) + [n/2, n).
// Every degree that divides the shards gets the same bits. With kFast each replica sums its own
// microbatches, and replicas are added in order.
enum class Reduction : std::uint8_t { kExact, kFast };

struct DataParallel {
  int degree = 1;  // number of replicas
  // The degree must divide the shards, and these the microbatches of all replicas. 0: the degree.
  int shards = 0;
  // Shards the optimizer state: each replica updates its share of the parameters.
  bool zero1 = false;
  // Shards the parameters, too: UNSHARD gathers and RESHARD drops them.
  bool zero3 = false;
  Reduction reduction = Reduction::kExact;
  bool per_microbatch = false;  // reduces gradients after every backward

  int num_shards() const { return shards > 0 ? shards : degree; }
  friend bool operator==(const DataParallel&, const DataParallel&) = default;
};

// Tensor parallelism: ranks that share each layer.
//
// A layer is divided into `slices`, whose partial sums are added in a balanced binary tree. Results
// therefore depend on the slices, not on the degree. The degree must be a power of two that divides
// the slices, or equal their number.
struct TensorParallel {
  int degree = 1;  // number of ranks
  // 0: the degree.
  int slices = 0;
  // Divides rows among the ranks between divided layers. Results stay the same.
  bool sequence = true;

  int num_slices() const { return slices > 0 ? slices : degree; }
  friend bool operator==(const TensorParallel&, const TensorParallel&) = default;
};

// The kind of device on which ranks compute.
enum class DeviceKind : std::uint8_t {
  kAuto,  // kCuda if the machine has as many devices as ranks, else kCpu
  kCpu,
  kCuda,  // the device with the rank's number on its machine
};

// How a checkpoint becomes visible as a whole.
enum class Commit : std::uint8_t {
  kRename,  // written under another name, then renamed
  kMarker,  // valid once manifest.json exists, for storage without atomic renames
};

}  // namespace sluice
