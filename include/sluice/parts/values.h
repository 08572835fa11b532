// Named tensors, what is known of a tensor without having it, and the batch of a step.
//
// Owns: TensorMeta, Values, Slice; Input and Inputs, which a step is given; StepBatch, which runs.
// Does not own: what the names mean (layer.h, Model::inputs), where data comes from (data.h,
// causal_lm.h). Thread-safety: values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/options.h"

namespace sluice {

// What is known of a tensor without having it. Of an undefined tensor, an optional value that is
// not there: no sizes and the dtype at::ScalarType::Undefined.
struct TensorMeta {
  std::vector<std::int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  friend bool operator==(const TensorMeta&, const TensorMeta&) = default;
};
TensorMeta meta_of(const at::Tensor& tensor);
std::string to_text(const TensorMeta& meta);   // "float32[2, 16, 64]"
std::string dtype_name(at::ScalarType dtype);  // "float32", "bfloat16", "int64"

// Named tensors in a fixed order. Small: linear search.
class Values {
 public:
  Values() = default;
  Values(std::initializer_list<std::pair<std::string, at::Tensor>> items) : items_(items) {}
  bool has(std::string_view name) const;
  // Throws Error(kUsage) naming the value and those present.
  const at::Tensor& get(std::string_view name) const;
  const at::Tensor& operator[](std::string_view name) const { return get(name); }
  void set(const std::string& name, at::Tensor tensor);  // adds or replaces
  void erase(std::string_view name);
  std::size_t size() const { return items_.size(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<std::pair<std::string, at::Tensor>> items_;
};

// A range of one dimension: elements offset .. offset + size - 1.
struct IndexRange {
  std::int64_t offset = 0, size = 0;

  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

// A range for every dimension. Empty: all of the tensor.
using Slice = std::vector<IndexRange>;

bool is_whole(const Slice& slice, const std::vector<std::int64_t>& shape);

// One value of a step's batch, and how it is cut into microbatches.
class Input {
 public:
  enum class Kind : std::uint8_t {
    kSplit,          // cut along a dimension, as evenly as it gets (torch.tensor_split)
    kReplicated,     // the whole tensor for every microbatch
    kRagged,         // rows of their own lengths behind each other, cut between rows
    kOffsets,        // where such rows begin
    kPerMicrobatch,  // a tensor each, given
  };

  // Cut along dimension 0, the rows.
  Input(at::Tensor tensor) : Input(split(std::move(tensor), 0)) {}  // NOLINT: meant to convert
  static Input split(at::Tensor tensor, std::int64_t dim);
  static Input replicated(at::Tensor tensor);
  // Row i is lengths[i] places long along `dim`; the tensor is as long as all rows together.
  static Input ragged(at::Tensor tensor, std::vector<std::int64_t> lengths, std::int64_t dim = 0);
  // Where every row of a ragged input begins, and where the last ends: integers [rows + 1] that
  // ascend from 0 (cu_seqlens). A microbatch gets those of its rows, counted from its own first.
  static Input offsets(at::Tensor tensor);
  // One for each microbatch; lengths may differ. Undefined: an optional value that is not there.
  static Input per_microbatch(std::vector<at::Tensor> tensors);
  // For a rank on which neither a layer nor the loss nor Model::count reads the value: its meta
  // alone, of the whole batch. Cut along dimension 0; for another kind, give a tensor on the device
  // "meta".
  static Input sizes(const TensorMeta& meta);

  Kind kind() const { return kind_; }
  std::int64_t dim() const { return dim_; }
  // One tensor; of kPerMicrobatch one a microbatch.
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  // The length of every row of kRagged.
  const std::vector<std::int64_t>& lengths() const { return lengths_; }

 private:
  Input(Kind kind, std::vector<at::Tensor> tensors, std::int64_t dim)
      : kind_(kind), tensors_(std::move(tensors)), dim_(dim) {}

  Kind kind_;
  std::vector<at::Tensor> tensors_;
  std::int64_t dim_ = 0;
  std::vector<std::int64_t> lengths_;
};

// The batch of a step: {{"x", x}, {"y", y}}, or in the order of Model::inputs {x, y}.
class Inputs {
 public:
  Inputs() = default;
  Inputs(std::initializer_list<std::pair<std::string, Input>> named) : named_(named) {}
  Inputs(std::initializer_list<Input> in_order) : in_order_(in_order) {}

  void add(std::string name, Input input) {
    named_.emplace_back(std::move(name), std::move(input));
  }
  // Behind those that were added.
  void add(Input input) { in_order_.push_back(std::move(input)); }

  const std::vector<std::pair<std::string, Input>>& named() const { return named_; }
  const std::vector<Input>& in_order() const { return in_order_; }

 private:
  std::vector<std::pair<std::string, Input>> named_;
  std::vector<Input> in_order_;
};

// The batch inputs of every microbatch: held ready, or made anew where they are used, so that a
// rank holds no more of them than it has microbatches in flight.
class MicrobatchList {
 public:
  void push_back(Values inputs) {
    makers_.push_back([inputs = std::move(inputs)] { return inputs; });
  }
  // Called on the rank's thread, once for each of its stages and whenever a size is needed: the
  // same values every time.
  void push_back(std::function<Values()> make) { makers_.push_back(std::move(make)); }
  std::size_t size() const { return makers_.size(); }
  // Precondition: microbatch < size().
  Values at(std::size_t microbatch) const { return makers_.at(microbatch)(); }

 private:
  std::vector<std::function<Values()>> makers_;
};

// One step's data: the same on every rank of a replica, but for the device, which is that of the
// rank's stages.
struct StepBatch {
  std::int64_t step = 0;  // 1-based; key of random numbers
  // The number of the first of these microbatches among those of all replicas; keys of random
  // numbers go on from there.
  std::int64_t first_microbatch = 0;
  MicrobatchList microbatches;
  // Counted tokens of each, as LossValue::count will say: every rank divides by their sum.
  std::vector<std::int64_t> counts;
  // The counts of the batches of all replicas together, where there are several: then this is
  // divided by.
  std::optional<std::int64_t> total_count;
  // The scale of the gradients of this step, in place of RunOptions::scale.
  std::optional<GradientScale> scale;
};

// The loss of one microbatch, as the last stage computed it.
struct MicrobatchLoss {
  std::int64_t microbatch = 0;  // among those of all replicas
  double sum = 0;               // of token losses
  std::int64_t count = 0;       // counted tokens
};

}  // namespace sluice
