// Layers that ranks run together, each with slices of the weights: tensor and sequence parallelism.
//
//   ColumnParallelLinear up(256, 1024, tp, ColumnParallelOptions{.gather_output = false});
//   RowParallelLinear down(1024, 256, tp, RowParallelOptions{.input_is_parallel = true});
//   y = down(torch::relu(up(x)));
//
// or, of modules that know nothing of it, a table of names in a hook:
//
//   parallelize_module(chunk, {{"*.up", kColwise}, {"*.down", kRowwise}, {"*.norm", kSequence}});
//
// A layer is divided into a fixed number of slices (options.h, TensorParallel). Each slice is
// computed by itself, with the same shapes on every number of ranks; partial sums add up in the
// balanced tree over the slices. So results and gradients are the same bits for every degree.
// Slice s of S of a dimension of length n is its part [n s / S, n (s + 1) / S); a rank holds its
// neighbouring slices side by side.
// Megatron-LM: Shoeybi et al., arXiv:1909.08053; sequence parallelism: Korthikanti et al.,
// arXiv:2205.05198.
//
// Invariants:
//  1. Every member of the group makes the same calls in the same order, forwards and backwards.
//  2. With as many slices as ranks, a layer computes, keeps and adds no more than one that is
//     divided without slices.
//  3. Sequence parallelism changes no bit: sums over rows go by slices with it and without.
//  4. A tensor that was given to a mapping is not written to in place afterwards.
// Thread-safety: one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/layer.h"
#include "sluice/options.h"
#include "sluice/parts/group.h"
#include "sluice/parts/values.h"

namespace sluice {

struct LocalChunk;  // run_options.h

// The slices of a rank, and the ranks that have the others.
class SliceGroup {
 public:
  SliceGroup() = default;  // one slice
  // group: the ranks along tp; empty where there is one. sequence_dim: the dimension of activations
  // along which rows are divided. Throws Error(kUsage) for options that do not fit the size of the
  // group.
  SliceGroup(Group group, const TensorParallel& options, std::int64_t sequence_dim = 1);
  // For a hook: from the chunk that it gets.
  explicit SliceGroup(const LocalChunk& chunk, std::int64_t sequence_dim = 1);

  // For a factory: the group of the stage whose modules are being made on this thread. Elsewhere
  // one slice.
  static SliceGroup current();

  const Group& group() const { return group_; }
  const SliceRange& slices() const { return slices_; }
  int degree() const { return slices_.count / slices_.size(); }
  SliceRange slices_of(int member) const;
  // True if each member has its own rows. False, too, while a microbatch is computed whose length
  // (of the first input that has the dimension of rows) the slices do not divide.
  bool sequence_parallel() const;
  std::int64_t sequence_dim() const { return sequence_dim_; }
  // The same without sequence parallelism, or with it.
  SliceGroup with_sequence(bool on) const;
  // The same, for the backward of a call that the forward made at `place`; "" in a forward.
  SliceGroup of_call(std::string place) const;
  const std::string& call() const { return call_; }
  // A member's part of a dimension of this length; without `member`, this rank's part.
  IndexRange range(std::int64_t length, int member) const;
  IndexRange range(std::int64_t length) const;

 private:
  Group group_;
  SliceRange slices_ = {};
  bool sequence_ = false;
  std::int64_t sequence_dim_ = 1;
  std::string call_;
};

// ---- mappings (Megatron's names), differentiable once ----

// Copies of x, which all members have, one for each own slice; gradients add up in the tree.
std::vector<at::Tensor> copy_to(const at::Tensor& x, const SliceGroup& tp);
// The sum of the parts of all slices; each part gets the whole gradient.
at::Tensor reduce_from(const std::vector<at::Tensor>& parts, const SliceGroup& tp);
// This rank's part of x along dim; gradients are gathered.
at::Tensor scatter_to(const at::Tensor& x, const SliceGroup& tp, std::int64_t dim = -1);
// The parts of all members along dim; the gradient is this rank's part of it.
at::Tensor gather_from(const at::Tensor& part, const SliceGroup& tp, std::int64_t dim = -1);
// The rows of all members, once for each own slice; gradients add up in the tree, each member
// taking the sums of its own rows.
std::vector<at::Tensor> gather_from_sequence(const at::Tensor& rows, const SliceGroup& tp);
// This member's rows of the sum over all slices; gradients are gathered.
at::Tensor reduce_scatter_to_sequence(const std::vector<at::Tensor>& parts, const SliceGroup& tp);

// Views of the own slices in `part`, side by side along dim; length: of the whole dimension.
std::vector<at::Tensor> own_slices(const at::Tensor& part, std::int64_t length,
                                   const SliceGroup& tp, std::int64_t dim = -1);

// ---- layers: names and arguments of NeuronX Distributed and Megatron-LM ----

struct ColumnParallelOptions {
  bool bias = true;
  bool gather_output = true;  // else a rank keeps its columns
  // True: rows of the input are divided. None: as the SliceGroup says.
  std::optional<bool> sequence_parallel = {};
  bool skip_bias_add = false;  // the caller adds bias()
  // Widths of several projections in one weight, each divided by itself: q, k and v.
  std::vector<std::int64_t> sections = {};
  at::TensorOptions tensors = {};  // type and device of the weights
};

// y = x W^T + b, the rows of W divided. x [.., in]. Drawn as torch::nn::Linear, whole.
class ColumnParallelLinearImpl : public torch::nn::Module, public SlicedModule {
 public:
  ColumnParallelLinearImpl(std::int64_t in, std::int64_t out, SliceGroup tp,
                           ColumnParallelOptions options = {});
  // [.., out], or the columns of this rank, section by section.
  at::Tensor forward(const at::Tensor& x);
  // The columns of each own slice.
  std::vector<at::Tensor> slices_of(const at::Tensor& x);
  std::vector<std::pair<std::string, ParameterSlices>> slices() const override;

  at::Tensor weight, bias;  // of this rank; bias may be undefined

 private:
  std::int64_t in_, out_;
  SliceGroup tp_;
  ColumnParallelOptions options_;
};
TORCH_MODULE(ColumnParallelLinear);

struct RowParallelOptions {
  bool bias = true;
  bool input_is_parallel = false;  // a rank's input has its columns alone
  // True: rows of the result are divided. None: as the SliceGroup says.
  std::optional<bool> sequence_parallel = {};
  bool skip_bias_add = false;
  at::TensorOptions tensors = {};
};

// y = x W^T + b, the columns of W divided; b is whole, and added once.
class RowParallelLinearImpl : public torch::nn::Module, public SlicedModule {
 public:
  // Throws Error(kUsage) for divided rows without input_is_parallel.
  RowParallelLinearImpl(std::int64_t in, std::int64_t out, SliceGroup tp,
                        RowParallelOptions options = {});
  at::Tensor forward(const at::Tensor& x);                          // [.., in], or its own columns
  at::Tensor forward_slices(const std::vector<at::Tensor>& parts);  // a part for each own slice
  std::vector<std::pair<std::string, ParameterSlices>> slices() const override;

  at::Tensor weight, bias;

 private:
  std::int64_t in_, out_;
  SliceGroup tp_;
  RowParallelOptions options_;
};
TORCH_MODULE(RowParallelLinear);

struct ParallelEmbeddingOptions {
  std::optional<std::int64_t> padding_idx = {};  // takes no gradient
  std::optional<bool> sequence_parallel = {};    // rows of the result are divided
  at::TensorOptions tensors = {};
};

// A table whose rows are divided. Their number may be any; none are added as padding.
class ParallelEmbeddingImpl : public torch::nn::Module, public SlicedModule {
 public:
  ParallelEmbeddingImpl(std::int64_t num_embeddings, std::int64_t embedding_dim, SliceGroup tp,
                        ParallelEmbeddingOptions options = {});
  // [..] -> [.., embedding_dim]. Throws Error(kInput) for an id outside the table (on CPU).
  at::Tensor forward(const at::Tensor& ids);
  std::vector<std::pair<std::string, ParameterSlices>> slices() const override;

  at::Tensor weight;

 private:
  std::int64_t num_embeddings_, embedding_dim_;
  SliceGroup tp_;
  ParallelEmbeddingOptions options_;
};
TORCH_MODULE(ParallelEmbedding);

// The cross entropy of each row, of logits whose columns are divided: those of each own slice
// [.., V_s], or side by side [.., V_own] of num_classes. labels [..] are whole; the losses have
// their shape, 0 where the label is ignore_index. Throws Error(kInput) for a label that is no class
// (on CPU).
at::Tensor parallel_cross_entropy(const std::vector<at::Tensor>& logits, const at::Tensor& labels,
                                  std::int64_t num_classes, const SliceGroup& tp,
                                  std::int64_t ignore_index = -100);
at::Tensor parallel_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                  std::int64_t num_classes, const SliceGroup& tp,
                                  std::int64_t ignore_index = -100);

// ---- plain modules by a table of names ----

// The ways to divide a module, in torch's words.
enum class ParallelStyle : std::uint8_t {
  kColwise,        // torch::nn::Linear: its outputs are divided
  kColwiseGather,  // the same, and all ranks get all outputs: a head
  kRowwise,        // torch::nn::Linear: its inputs are divided; torch::nn::Embedding: its rows
  kSequence,       // a norm of rows (LayerNorm, at::rms_norm, x * weight), which may be divided
};
inline constexpr ParallelStyle kColwise = ParallelStyle::kColwise;
inline constexpr ParallelStyle kColwiseGather = ParallelStyle::kColwiseGather;
inline constexpr ParallelStyle kRowwise = ParallelStyle::kRowwise;
inline constexpr ParallelStyle kSequence = ParallelStyle::kSequence;

// Name patterns of modules ("layers.*.up"; * stands for any characters), the first that fits.
using ParallelTable = std::vector<std::pair<std::string, ParallelStyle>>;

// Divides modules of the chunk, which stay the same objects: their weights become this rank's, and
// the operators that read a weight in a forward (at::linear, or the style's) compute by slices.
// Code between a kColwise and the next kRowwise sees this rank's columns, and must treat columns
// (heads) alike and by themselves; sizes in it are inferred (view({b, l, -1, head_dim})). Throws
// Error(kUsage) for a module of another kind; in a forward, for a weight that another operator
// reads and for dropout of what does not show its slices; and with a single stage for a pattern
// that fits no module.
void parallelize_module(LocalChunk& chunk, const ParallelTable& table,
                        std::int64_t sequence_dim = 1);

}  // namespace sluice
