// Named tensors, tensor metadata, and the batch of a step.
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

// An undefined tensor (an absent optional value) has no sizes and dtype Undefined.
struct TensorMeta {
  std::vector<std::int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  friend bool operator==(const TensorMeta&, const TensorMeta&) = default;
};
TensorMeta meta_of(const at::Tensor& tensor);
std::string to_text(const TensorMeta& meta);   // "float32[2, 16, 64]"
std::string dtype_name(at::ScalarType dtype);  // "float32", "bfloat16", "int64"

class Values {
 public:
  Values() = default;
  Values(std::initializer_list<std::pair<std::string, at::Tensor>> items) : items_(items) {}
  bool has(std::string_view name) const;
  // Throws Error(kUsage) if there is no such value.
  const at::Tensor& get(std::string_view name) const;
  const at::Tensor& operator[](std::string_view name) const { return get(name); }
  void set(const std::string& name, at::Tensor tensor);
  void erase(std::string_view name);
  // Returns copies of the values in host memory, so that reading an element does not wait for the
  // device. Returns *this if the values were not moved to a device.
  const Values& on_host() const { return on_host_ ? *on_host_ : *this; }
  void set_on_host(Values values);
  std::size_t size() const { return items_.size(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<std::pair<std::string, at::Tensor>> items_;
  std::shared_ptr<const Values> on_host_;
};

struct IndexRange {
  std::int64_t offset = 0, size = 0;

  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

// One range per dimension. Empty: the whole tensor.
using Slice = std::vector<IndexRange>;

bool is_whole(const Slice& slice, const std::vector<std::int64_t>& shape);

// One value of a batch, and how to cut it into microbatches.
class Input {
 public:
  enum class Kind : std::uint8_t {
    kSplit,  // along a dimension, like torch.tensor_split
    kReplicated,
    kRagged,  // concatenated rows of different lengths
    kOffsets,
    kPerMicrobatch,  // the caller gives one tensor per microbatch
  };

  Input(at::Tensor tensor) : Input(split(std::move(tensor), 0)) {}  // NOLINT: meant to convert
  static Input split(at::Tensor tensor, std::int64_t dim);
  static Input replicated(at::Tensor tensor);
  // Row i has lengths[i] elements along `dim`. All rows together must fill the tensor.
  static Input ragged(at::Tensor tensor, std::vector<std::int64_t> lengths, std::int64_t dim = 0);
  // The start of every row of a ragged input and the end of the last (cu_seqlens): integers [rows +
  // 1], ascending from 0. Each microbatch gets the offsets of its rows, starting at 0.
  static Input offsets(at::Tensor tensor);
  // One tensor per microbatch. Their lengths may differ. Undefined: an absent optional value.
  static Input per_microbatch(std::vector<at::Tensor> tensors);
  // Gives only the shape and dtype of an input that is split along dimension 0. Enough for a rank
  // whose layers, loss and Model::count do not read the value. For other kinds of input, such a
  // rank passes a tensor of the whole batch on the device at::kMeta.
  static Input sizes(const TensorMeta& meta);

  Kind kind() const { return kind_; }
  std::int64_t dim() const { return dim_; }
  // One tensor, or one per microbatch for kPerMicrobatch.
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  const std::vector<std::int64_t>& lengths() const { return lengths_; }

 private:
  Input(Kind kind, std::vector<at::Tensor> tensors, std::int64_t dim)
      : kind_(kind), tensors_(std::move(tensors)), dim_(dim) {}

  Kind kind_;
  std::vector<at::Tensor> tensors_;
  std::int64_t dim_ = 0;
  std::vector<std::int64_t> lengths_;
};

// The batch of a step: {{"x", x}, {"y", y}}, or {x, y} in the order of Model::inputs.
class Inputs {
 public:
  Inputs() = default;
  Inputs(std::initializer_list<std::pair<std::string, Input>> named) : named_(named) {}
  Inputs(std::initializer_list<Input> in_order) : in_order_(in_order) {}

  void add(std::string name, Input input) {
    named_.emplace_back(std::move(name), std::move(input));
  }
  void add(Input input) { in_order_.push_back(std::move(input)); }

  const std::vector<std::pair<std::string, Input>>& named() const { return named_; }
  const std::vector<Input>& in_order() const { return in_order_; }

 private:
  std::vector<std::pair<std::string, Input>> named_;
  std::vector<Input> in_order_;
};

// Inputs of every microbatch. An element is either a set of tensors, or a function that makes them
// at each use, so that a rank holds only the inputs of microbatches in flight.
class MicrobatchList {
 public:
  void push_back(Values inputs) {
    makers_.push_back([inputs = std::move(inputs)] { return inputs; });
  }
  // `make` is called several times on the rank's thread, and must always return the same values.
  void push_back(std::function<Values()> make) { makers_.push_back(std::move(make)); }
  std::size_t size() const { return makers_.size(); }
  Values at(std::size_t microbatch) const { return makers_.at(microbatch)(); }

 private:
  std::vector<std::function<Values()>> makers_;
};

// The microbatches of one step, the same on every rank of a replica except for the device.
struct StepBatch {
  std::int64_t step = 0;  // starts at 1; random numbers depend on it
  // Index of the first microbatch over all replicas. Random numbers depend on it.
  std::int64_t first_microbatch = 0;
  MicrobatchList microbatches;
  // LossValue::count of each microbatch. The step's loss is the sum of all
  // losses divided by total_count if set, otherwise by the sum of these counts.
  std::vector<std::int64_t> counts;
  // The sum over all replicas, if there are several.
  std::optional<std::int64_t> total_count;
  // Overrides RunOptions::scale.
  std::optional<GradientScale> scale;
};

struct MicrobatchLoss {
  std::int64_t microbatch = 0;  // over all replicas
  double sum = 0;
  std::int64_t count = 0;
};

}  // namespace sluice
