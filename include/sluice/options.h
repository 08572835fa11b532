// The options of a training step: one struct a concept, torch-free. Every field has a default that
// works.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

enum class OptimizerKind {
  kAdamW,  // Loshchilov and Hutter, arXiv:1711.05101; keeps two numbers for each parameter
  kSgd,    // without momentum; keeps nothing
};

struct OptimizerOptions {
  // The update rule.
  OptimizerKind kind = OptimizerKind::kAdamW;

  // Learning rate before LearningRateOptions: the factor of an update's direction. 0 changes
  // nothing. At least 0.
  double lr = 3e-4;

  // Shares of AdamW's first and second moment that a step keeps: values nearer to 1 are smoother
  // and react more slowly. Each in [0, 1). SGD has none.
  std::array<double, 2> betas = {0.9, 0.95};

  // Number added to AdamW's denominator: a larger one damps the updates of parameters with tiny
  // gradients.
  double eps = 1e-8;

  // Share of itself that a parameter loses at each step, times the learning rate. 0: none.
  double weight_decay = 0.1;

  // Patterns ("*.bias") of full names of parameters without weight decay. Empty: all decay.
  std::vector<std::string> no_decay = {};

  // Largest norm of all gradients together; longer ones are scaled down to it before the update.
  // 0: no clipping; the norm is reported all the same.
  double max_norm = 1.0;
};

enum class Decay { kConstant, kLinear, kCosine };

// The learning rate over the steps: see learning_rate().
struct LearningRateOptions {
  // Steps over which the rate grows evenly to OptimizerOptions::lr. 0: it starts there.
  std::int64_t warmup_steps = 0;

  // The curve from the end of the warm-up to the last step.
  Decay decay = Decay::kConstant;

  // The decay ends at lr * min_lr_factor. In [0, 1]; not used by Decay::kConstant.
  double min_lr_factor = 0.0;
};

// Step k of N, both 1-based, base rate lr, w = warmup_steps:
//   k <= w:     lr * k / w
//   k >  w:     t = (k - w) / (N - w), m = min_lr_factor
//     constant  lr
//     linear    lr * (1 - (1 - m) t)
//     cosine    lr * (m + (1 - m) (1 + cos(pi t)) / 2)     (arXiv 1608.03983)
// so that the rate at step N is lr * m. A pure function.
double learning_rate(std::int64_t step, std::int64_t num_steps, double base,
                     const LearningRateOptions& options);

// The quantity that a step differentiates.
struct GradientScale {
  enum Kind {
    kTokens,        // sum of token losses / counted tokens of the whole step
    kMicrobatches,  // mean over microbatches of each microbatch's mean
    kSumOfMeans,    // sum over microbatches of each microbatch's mean
    kDivisor,       // kSumOfMeans / divisor
  };
  Kind kind;
  double divisor;  // used by kDivisor alone; above 0

  GradientScale(Kind of = kTokens, double by = 1.0) : kind(of), divisor(by) {}
  friend bool operator==(const GradientScale&, const GradientScale&) = default;
};

// The layers that keep only their inputs for the backward, and run a second time in it.
struct ActivationCheckpoint {
  enum Kind {
    kNone,
    kFull,     // every block (LayerRole::kBlock)
    kClasses,  // layers whose module's class (torch::nn::Module::name()) is one of these
    kLayers,   // these layers, by name
  };
  Kind kind;
  std::vector<std::string> names;  // names for kClasses and kLayers

  ActivationCheckpoint(Kind of = kNone, std::vector<std::string> which = {})
      : kind(of), names(std::move(which)) {}
  friend bool operator==(const ActivationCheckpoint&, const ActivationCheckpoint&) = default;
};

// Data parallelism: replicas of the pipeline, each with its own rows of every step's batch.
//
// The microbatches of a step are numbered across all replicas, those of replica 0 first. They fall
// into `shards` ranges of equal length. Each range is summed in order; the sums of the ranges add
// up in a balanced binary tree: [0, n) is [0, n/2) + [n/2, n). So the gradients are the same bits
// for every degree that divides the shards, 1 included. With Reduction::kFast every replica adds up
// its own, and replicas in their order.
enum class Reduction : std::uint8_t { kExact, kFast };

struct DataParallel {
  int degree = 1;  // replicas
  // Shards of the gradients; the degree divides them, and they divide the microbatches of all
  // replicas. 0: as many as the degree.
  int shards = 0;
  // Optimizer state is sharded over the replicas: each updates its share of the parameters, and
  // sends it to the others.
  bool zero1 = false;
  // Parameters are sharded too: gathered at the program's UNSHARD, dropped at its RESHARD.
  bool zero3 = false;
  Reduction reduction = Reduction::kExact;
  bool per_microbatch = false;  // gradients are reduced after every backward

  int num_shards() const { return shards > 0 ? shards : degree; }
  friend bool operator==(const DataParallel&, const DataParallel&) = default;
};

// Tensor parallelism: ranks that hold parts of each layer and run it together.
//
// A layer is divided into `slices`, whatever the degree: each is computed by itself, with the same
// shapes, and partial sums add up in a balanced binary tree over the slices. So the bits depend on
// the slices alone. A rank has neighbouring slices that are one subtree: the degree is a power of
// two that divides the slices, or equals their number.
struct TensorParallel {
  int degree = 1;  // ranks
  // Number of slices; 0: the degree, so that a rank has one slice and computes nothing in pieces.
  int slices = 0;
  // Between divided layers each rank has its own rows. Changes no bit.
  bool sequence = true;

  int num_slices() const { return slices > 0 ? slices : degree; }
  friend bool operator==(const TensorParallel&, const TensorParallel&) = default;
};

// The kind of device on which ranks compute.
enum class DeviceKind : std::uint8_t {
  kAuto,  // kCuda where a machine has as many devices as ranks, else kCpu
  kCpu,
  kCuda,  // each rank on the device of its number among the ranks of its machine
};

// The way in which a checkpoint appears as a whole.
enum class Commit : std::uint8_t {
  kRename,  // written under another name, then renamed
  kMarker,  // manifest.json, written last, decides: where renames are not atomic
};

}  // namespace sluice
