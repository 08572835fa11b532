// Weights of plain modules that are divided, and what reads them in a forward.
//
// LibTorch's modules have no hooks, and code holds them by their classes; so what makes them
// parallel sits below their forward: in run() at::linear (and what torch::nn::Linear calls in its
// place: x W^T as at::matmul or at::addmm, then += bias), at::embedding, at::layer_norm,
// at::rms_norm, x * weight and x + bias look whether they read a weight that is listed here, and
// then compute by slices. Between a product by columns and the next one by rows, pointwise
// operators and at::scaled_dot_product_attention run once for each own slice, since LibTorch's
// numbers may depend on how many columns and heads a call has. Dropout draws for each
// slice by itself: of columns or heads there, elsewhere of rows. All other operators run as ever.
//
// Owns: the list of such weights of a layer; how operators that read them are carried out.
// Does not own: the weights (their modules). Invariants:
//  1. An input that several products read in a row, as of q, k and v, is exchanged once; its
//     gradients add up within a slice first.
//  2. An x with all rows of the microbatch is computed with all of them on every rank, a region
//  that
//     it enters, too. Weights that are read with fewer rows are listed, or refused.
//  3. A weight that a forward has not read by an operator of its style is refused when the forward
//     returns: it was read otherwise, and the numbers are wrong.
// Thread-safety: one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "layer/operator_reader.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::detail {

struct DividedWeight {
  ParallelStyle style = ParallelStyle::kColwise;
  std::int64_t length = 0;  // of the dimension that is divided, in the whole
  std::string name = {};    // for messages
};

class DividedWeights : public OperatorReader {
 public:
  explicit DividedWeights(const SliceGroup& tp) : tp_(tp), region_(tp) {}
  void add(const at::Tensor& weight, DividedWeight divided);
  bool has(const at::Tensor& weight) const;
  // A weight of the layer that is in no table.
  void add_whole(const at::Tensor& weight, std::string name);

  // A product of the layer, in the order of its modules; length: of what is divided.
  void add_product(ParallelStyle style, std::int64_t length);
  bool has_products() const { return has_products_; }
  // Columns of a product of an earlier layer that are open where this one begins, in the whole, as
  // the layer's own products show: they close what they have not opened. 0: none are.
  std::int64_t closes() const { return opened_ == 0 ? closed_ : 0; }
  // The same as the layers of the chunk show, none: unknown; and the layer there that opened them.
  // Returns what is open behind this layer.
  std::optional<std::int64_t> begin_with(std::optional<std::int64_t> columns,
                                         std::shared_ptr<const DividedWeights> opener);

  // Calls a layer's forward, whose operators ask. Throws Error(kUsage) for a weight that is read by
  // no operator of its style, for dropout of what does not show its slices and of other kinds than
  // torch::nn::Dropout, and what the forward throws.
  std::vector<at::Tensor> run(const std::function<std::vector<at::Tensor>()>& forward);

  bool run(const c10::OperatorHandle& op, torch::jit::Stack& stack) override;

 private:
  struct Entry {
    DividedWeight divided;
    bool read = false;
  };
  Entry* find(const c10::IValue& value);
  Entry* find_transpose(const c10::IValue& value);
  std::int64_t rows_of_all(const at::Tensor& x) const;
  // As the layer's group, without sequence parallelism for an x that has all rows.
  SliceGroup for_rows_of(const at::Tensor& x) const;
  // Throws Error(kUsage) for a weight that is in no table, and is read with the rows of this rank.
  void require_whole_rows(const at::Tensor& x, const at::Tensor& weight) const;
  const std::vector<at::Tensor>& entered(const at::Tensor& x);
  // bias: undefined for none.
  at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    const DividedWeight& divided);
  // The results of operators that read a weight in the table; undefined: they do not.
  at::Tensor product(const std::string& op, const std::vector<c10::IValue>& in);
  at::Tensor embedding(const std::vector<c10::IValue>& in);
  at::Tensor norm(const std::string& op, const std::vector<c10::IValue>& in);
  at::Tensor add_in_place(const std::vector<c10::IValue>& in);
  at::Tensor pointwise(const c10::OperatorHandle& op, const std::vector<c10::IValue>& in);
  at::Tensor attention(const c10::OperatorHandle& op, const std::vector<c10::IValue>& in);
  at::Tensor dropout(const std::vector<c10::IValue>& in, bool in_place);
  std::int64_t dimension_of_slices(const at::Tensor& x) const;
  std::optional<std::int64_t> dimension_of_heads(const std::vector<std::int64_t>& sizes) const;
  at::Tensor by_element(const std::string& op, const std::vector<c10::IValue>& in);
  void forget_input();

  SliceGroup tp_;
  // All columns of the latest product by columns, while none by rows has followed; else 0.
  std::int64_t columns_ = 0;
  // All columns of each product by columns since the latest one by rows.
  std::vector<std::int64_t> open_columns_;
  std::optional<std::int64_t> columns_before_ = 0;
  bool has_products_ = false;
  std::int64_t opened_ = 0, closed_ = 0;
  std::shared_ptr<const DividedWeights> opener_;
  std::vector<std::int64_t> sizes_;  // of what that product gave this rank; empty: another layer's
  SliceGroup region_;                // whether the input of that product had divided rows
  std::unordered_map<const c10::TensorImpl*, Entry> weights_;
  std::unordered_map<const c10::TensorImpl*, std::string> whole_;  // names
  // The latest input of a product by columns, and what the slices get of it.
  at::Tensor input_;
  std::uint32_t input_version_ = 0;
  std::vector<at::Tensor> entered_;
};

}  // namespace sluice::detail
