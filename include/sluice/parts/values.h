// Named tensors, the metadata of a tensor, and the batch of a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/options.h"

namespace sluice {

// Sizes and dtype of a tensor. An undefined tensor (an optional value that is not there) has no
// sizes and the dtype at::ScalarType::Undefined.
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
  // The values before their move to a device, whose elements are read without waiting for it; these
  // values where nothing was moved.
  const Values& on_host() const { return on_host_ ? *on_host_ : *this; }
  void set_on_host(Values values);
  std::size_t size() const { return items_.size(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<std::pair<std::string, at::Tensor>> items_;
  std::shared_ptr<const Values> on_host_;
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
    kRagged,         // concatenated rows of different lengths, cut between rows
    kOffsets,        // the offsets of such rows
    kPerMicrobatch,  // one given tensor each
  };

  // Cut along dimension 0, the rows.
  Input(at::Tensor tensor) : Input(split(std::move(tensor), 0)) {}  // NOLINT: meant to convert
  static Input split(at::Tensor tensor, std::int64_t dim);
  static Input replicated(at::Tensor tensor);
  // Row i has lengths[i] elements along `dim`; the tensor is as long as all rows together.
  static Input ragged(at::Tensor tensor, std::vector<std::int64_t> lengths, std::int64_t dim = 0);
  // The start of every row of a ragged input, and the end of the last: integers [rows + 1] that
  // ascend from 0 (cu_seqlens). A microbatch gets those of its rows, counted from its own first.
  static Input offsets(at::Tensor tensor);
  // One tensor for each microbatch; lengths may differ. Undefined: an optional value that is not
  // there.
  static Input per_microbatch(std::vector<at::Tensor> tensors);
  // The meta alone, of the whole batch, for a rank on which neither a layer nor the loss nor
  // Model::count reads the value. Cut along dimension 0; for another kind, give a tensor on the
  // device "meta".
  static Input sizes(const TensorMeta& meta);

  Kind kind() const { return kind_; }
  std::int64_t dim() const { return dim_; }
  // One tensor; with kPerMicrobatch one for each microbatch.
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
  // Adds an input after those added before.
  void add(Input input) { in_order_.push_back(std::move(input)); }

  const std::vector<std::pair<std::string, Input>>& named() const { return named_; }
  const std::vector<Input>& in_order() const { return in_order_; }

 private:
  std::vector<std::pair<std::string, Input>> named_;
  std::vector<Input> in_order_;
};

// The batch inputs of every microbatch: given ones, or a function that makes them at each use, so
// that a rank holds no more of them than it has microbatches in flight.
class MicrobatchList {
 public:
  void push_back(Values inputs) {
    makers_.push_back([inputs = std::move(inputs)] { return inputs; });
  }
  // make: called on the rank's thread, once for each of its stages and whenever a size is needed;
  // it must return the same values every time.
  void push_back(std::function<Values()> make) { makers_.push_back(std::move(make)); }
  std::size_t size() const { return makers_.size(); }
  // Precondition: microbatch < size().
  Values at(std::size_t microbatch) const { return makers_.at(microbatch)(); }

 private:
  std::vector<std::function<Values()>> makers_;
};

// The data of one step: the same on every rank of a replica, apart from the device, which is that
// of the rank's stages.
struct StepBatch {
  std::int64_t step = 0;  // 1-based; key of random numbers
  // The number of the first of these microbatches among those of all replicas; keys of random
  // numbers continue from there.
  std::int64_t first_microbatch = 0;
  MicrobatchList microbatches;
  // Number of counted tokens in each microbatch (must equal LossValue::count): every rank divides
  // by their sum.
  std::vector<std::int64_t> counts;
  // The sum of the counts of all replicas, where there are several: every rank then divides by
  // this.
  std::optional<std::int64_t> total_count;
  // The scale of the gradients of this step, in place of RunOptions::scale.
  std::optional<GradientScale> scale;
};

// The loss of one microbatch, as the last stage computed it.
struct MicrobatchLoss {
  std::int64_t microbatch = 0;  // its number among those of all replicas
  double sum = 0;               // sum of token losses
  std::int64_t count = 0;       // number of counted tokens
};

}  // namespace sluice
