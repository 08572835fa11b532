// What a step is given: the batch, by name, and how each of its tensors falls into microbatches.
//
// Owns: Input, Inputs. Does not own: which names there are (Model::inputs).
// Thread-safety: values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
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
    kPerMicrobatch,  // a tensor each, given
  };

  // Cut along dimension 0, the rows.
  Input(at::Tensor tensor) : Input(split(std::move(tensor), 0)) {}  // NOLINT: meant to convert
  static Input split(at::Tensor tensor, std::int64_t dim);
  static Input replicated(at::Tensor tensor);
  // One for each microbatch; lengths may differ. Undefined: an optional value that is not there.
  static Input per_microbatch(std::vector<at::Tensor> tensors);
  // For a rank on which neither a layer nor the loss nor Model::count reads the value: its meta
  // alone, of the whole batch. Cut along dimension 0.
  static Input sizes(const TensorMeta& meta);

  Kind kind() const { return kind_; }
  std::int64_t dim() const { return dim_; }
  // Of kPerMicrobatch one a microbatch, else one.
  const std::vector<at::Tensor>& tensors() const { return tensors_; }

 private:
  Input(Kind kind, std::vector<at::Tensor> tensors, std::int64_t dim)
      : kind_(kind), tensors_(std::move(tensors)), dim_(dim) {}

  Kind kind_;
  std::vector<at::Tensor> tensors_;
  std::int64_t dim_ = 0;
};

using Inputs = std::vector<std::pair<std::string, Input>>;

}  // namespace sluice
