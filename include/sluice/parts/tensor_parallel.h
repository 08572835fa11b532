// Tensor and sequence parallelism: layers whose weights are sliced over ranks.
//
//   ColumnParallelLinear up(256, 1024, tp, ColumnParallelOptions{.gather_output = false});
//   RowParallelLinear down(1024, 256, tp, RowParallelOptions{.input_is_parallel = true});
//   y = down(torch::relu(up(x)));
//   // or for plain modules, in a parallelize hook:
//   parallelize_module(chunk, {{"*.up", kColwise}, {"*.down", kRowwise}, {"*.norm", kSequence}});
//
// A layer has a fixed number of slices (options.h, TensorParallel). Each is computed separately,
// and a balanced tree adds partial sums, so every degree gives the same bits, with and without
// sequence parallelism. ParameterSplit (layout.h) says which elements form a slice. A rank holds
// adjacent slices. With one slice per rank, this costs no more than usual tensor parallelism.
// All members must make the same calls in the same order. Do not write to a tensor after passing it
// to a mapping (copy_to(), reduce_from() and the others below). Sources: Shoeybi et al.,
// arXiv:1909.08053; Korthikanti et al., arXiv:2205.05198.
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

struct LocalChunk;

// The slices of this rank, and the ranks that hold the others.
class SliceGroup {
 public:
  SliceGroup() = default;  // one slice
  // `group` has the ranks along axis tp, and is empty for one rank. Rows of activations are divided
  // along sequence_dim. Throws Error(kUsage) if the options do not fit the group's size.
  SliceGroup(Group group, const TensorParallel& options, std::int64_t sequence_dim = 1);
  // The chunk's group, for a parallelize hook.
  explicit SliceGroup(const LocalChunk& chunk, std::int64_t sequence_dim = 1);

  // Returns the stage's group while its modules are made, otherwise a group with one slice.
  static SliceGroup current();

  const Group& group() const { return group_; }
  const SliceRange& slices() const { return slices_; }
  int degree() const { return slices_.count / slices_.size(); }
  SliceRange slices_of(int member) const;
  // Whether rows of activations are divided over members. False if the slices do not divide the
  // current microbatch's length.
  bool sequence_parallel() const;
  std::int64_t sequence_dim() const { return sequence_dim_; }
  SliceGroup with_sequence(bool on) const;
  // Returns a copy for use in the backward of one call of a collective. `place` describes that call
  // in error messages.
  SliceGroup of_call(std::string place) const;
  const std::string& call() const { return call_; }
  // Returns the range of a dimension that a member (default: this rank) holds.
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

// Copies x once per slice of this rank. The backward adds all slices' gradients in the tree.
std::vector<at::Tensor> copy_to(const at::Tensor& x, const SliceGroup& tp);
// Sums the partial results of all slices. In the backward, each gets the whole gradient.
at::Tensor reduce_from(const std::vector<at::Tensor>& parts, const SliceGroup& tp);
// Returns this rank's part of x along dim. The backward gathers the gradients.
at::Tensor scatter_to(const at::Tensor& x, const SliceGroup& tp, std::int64_t dim = -1);
// Joins the parts of all members along dim. The backward returns this rank's part of the gradient.
at::Tensor gather_from(const at::Tensor& part, const SliceGroup& tp, std::int64_t dim = -1);
// Gathers the rows of all members, once per slice of this rank. The backward adds all slices'
// gradients in the tree and returns this member's rows.
std::vector<at::Tensor> gather_from_sequence(const at::Tensor& rows, const SliceGroup& tp);
// Sums the partial results of all slices and returns this member's rows. The backward gathers the
// gradients.
at::Tensor reduce_scatter_to_sequence(const std::vector<at::Tensor>& parts, const SliceGroup& tp);

// Returns views of this rank's slices in `part`. `length` is the size of the undivided dimension.
std::vector<at::Tensor> own_slices(const at::Tensor& part, std::int64_t length,
                                   const SliceGroup& tp, std::int64_t dim = -1);

// ---- layers: names and arguments of NeuronX Distributed and Megatron-LM ----

struct ColumnParallelOptions {
  bool bias = true;
  bool gather_output = true;  // false: a rank keeps its columns
  // Whether rows of the input are divided. Default: SliceGroup::sequence_parallel().
  std::optional<bool> sequence_parallel = {};
  bool skip_bias_add = false;  // the caller adds bias()
  // Widths of projections in one weight, such as q, k and v, each divided separately.
  std::vector<std::int64_t> sections = {};
  at::TensorOptions tensors = {};
};

// Computes y = x W^T + b with the rows of W divided. x [.., in]. Initial values are drawn
// as by torch::nn::Linear.
class ColumnParallelLinearImpl : public torch::nn::Module, public SlicedModule {
 public:
  ColumnParallelLinearImpl(std::int64_t in, std::int64_t out, SliceGroup tp,
                           ColumnParallelOptions options = {});
  // Returns [.., out] with gather_output. Otherwise returns this rank's columns, those of the first
  // section first.
  at::Tensor forward(const at::Tensor& x);
  // Returns one tensor per slice of this rank.
  std::vector<at::Tensor> slices_of(const at::Tensor& x);
  std::vector<std::pair<std::string, ParameterSlices>> slices() const override;

  at::Tensor weight, bias;  // this rank's part

 private:
  std::int64_t in_, out_;
  SliceGroup tp_;
  ColumnParallelOptions options_;
};
TORCH_MODULE(ColumnParallelLinear);

struct RowParallelOptions {
  bool bias = true;
  bool input_is_parallel = false;  // the input has only this rank's columns
  // Whether rows of the result are divided. Default: SliceGroup::sequence_parallel().
  std::optional<bool> sequence_parallel = {};
  bool skip_bias_add = false;
  at::TensorOptions tensors = {};
};

// Computes y = x W^T + b with the columns of W divided. b is whole.
class RowParallelLinearImpl : public torch::nn::Module, public SlicedModule {
 public:
  // Throws Error(kUsage) for divided rows without input_is_parallel.
  RowParallelLinearImpl(std::int64_t in, std::int64_t out, SliceGroup tp,
                        RowParallelOptions options = {});
  at::Tensor forward(const at::Tensor& x);  // x: [.., in], or this rank's columns
  // Takes one part per slice of this rank.
  at::Tensor forward_slices(const std::vector<at::Tensor>& parts);
  std::vector<std::pair<std::string, ParameterSlices>> slices() const override;

  at::Tensor weight, bias;

 private:
  std::int64_t in_, out_;
  SliceGroup tp_;
  RowParallelOptions options_;
};
TORCH_MODULE(RowParallelLinear);

struct ParallelEmbeddingOptions {
  std::optional<std::int64_t> padding_idx = {};  // row that gets no gradient
  std::optional<bool> sequence_parallel = {};
  at::TensorOptions tensors = {};
};

// An embedding table with any number of rows, which are divided without padding.
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

// Returns the cross entropy of each row [..], 0 where the label is ignore_index. Takes the logits
// of each slice of this rank [.., V_s], or side by side [.., V_own]. Throws Error(kInput) for a
// label outside num_classes (on CPU).
at::Tensor parallel_cross_entropy(const std::vector<at::Tensor>& logits, const at::Tensor& labels,
                                  std::int64_t num_classes, const SliceGroup& tp,
                                  std::int64_t ignore_index = -100);
at::Tensor parallel_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                  std::int64_t num_classes, const SliceGroup& tp,
                                  std::int64_t ignore_index = -100);

// ---- plain modules by a table of names ----

enum class ParallelStyle : std::uint8_t {
  kColwise,        // torch::nn::Linear: divides outputs
  kColwiseGather,  // also gathers outputs, as for a head
  kRowwise,        // torch::nn::Linear: divides inputs; torch::nn::Embedding: rows
  kSequence,       // norm (LayerNorm, at::rms_norm, x * weight) of divided rows
};
inline constexpr ParallelStyle kColwise = ParallelStyle::kColwise;
inline constexpr ParallelStyle kColwiseGather = ParallelStyle::kColwiseGather;
inline constexpr ParallelStyle kRowwise = ParallelStyle::kRowwise;
inline constexpr ParallelStyle kSequence = ParallelStyle::kSequence;

// Patterns of module names ("layers.*.up"). The first match wins.
using ParallelTable = std::vector<std::pair<std::string, ParallelStyle>>;

// Divides modules of the chunk in place. Operators that read their weights then compute by slices.
// Between a kColwise and the next kRowwise, the model's code gets activations with only this rank's
// columns, so it must infer sizes
// (view({b, l, -1, head_dim})) and treat each head separately. Throws Error(kUsage) for a module of
// another kind, and with a single stage for a pattern without match. A forward also
// throws Error(kUsage) if an unsupported operator reads a divided weight, or if dropout cannot
// tell which slices its input has.
void parallelize_module(LocalChunk& chunk, const ParallelTable& table,
                        std::int64_t sequence_dim = 1);

}  // namespace sluice
