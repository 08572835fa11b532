// What a step is given: the batch, by name or in order, and how each of its tensors falls into
// microbatches.
//
// Owns: Input, Inputs. Does not own: which names there are (Model::inputs).
// Thread-safety: values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "sluice/parts/values.h"

namespace sluice {

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
  // Of kPerMicrobatch one a microbatch, else one.
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  // Of kRagged, of every row.
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

}  // namespace sluice
