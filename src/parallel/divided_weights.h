// Tensor-parallel weights of plain modules, and the operators that read them in a forward.
//
// LibTorch's modules have no hooks and code refers to their classes, so we add parallelism below
// their forward. Within run(), operators that read a listed weight compute slice by slice:
// at::linear, at::matmul and at::addmm with += bias, at::embedding, at::layer_norm, at::rms_norm, x
// * weight and x + bias. A column-parallel product has a weight divided by outputs, a row-parallel
// product one divided by inputs. Between the two, pointwise operators and
// at::scaled_dot_product_attention run once per slice, because LibTorch's results may depend on the
// columns and heads of a call. Each slice draws dropout for its columns or heads there, for its
// rows elsewhere.
//
// Consecutive products of one input, such as q, k and v, exchange it once and add its gradients
// within a slice first. Operators on all rows of the microbatch run whole on every rank. A weight
// read with fewer rows must be listed.
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
  std::int64_t length = 0;  // size of the divided dimension in the whole weight
  std::string name = {};    // for error messages
};

class DividedWeights : public OperatorInterceptor {
 public:
  explicit DividedWeights(const SliceGroup& tp) : tp_(tp), region_(tp) {}
  void add(const at::Tensor& weight, DividedWeight divided);
  bool has(const at::Tensor& weight) const;
  // Adds an undivided weight, which no table of styles lists.
  void add_whole(const at::Tensor& weight, std::string name);

  // Adds a matrix product, in module order. length: whole size of the divided dimension.
  void add_product(ParallelStyle style, std::int64_t length);
  bool has_products() const { return has_products_; }
  // Number of columns between an earlier layer's column-parallel product and this layer's
  // row-parallel product, or 0.
  std::int64_t closes() const { return opened_ == 0 ? closed_ : 0; }
  // A column-parallel product is open until its row-parallel product. Sets the columns that are
  // open before this layer (none if unknown) and the layer that opened them. Returns the columns
  // open after this layer.
  std::optional<std::int64_t> begin_with(std::optional<std::int64_t> columns,
                                         std::shared_ptr<const DividedWeights> opener);

  // Calls a layer's forward. Throws Error(kUsage) for a weight that no operator of its style reads,
  // for dropout with unclear slices or other than torch::nn::Dropout.
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
  // Returns the group for x: without sequence parallelism if x has all rows.
  SliceGroup for_rows_of(const at::Tensor& x) const;
  // Throws Error(kUsage) if x has only this rank's rows and the weight is in no table.
  void require_whole_rows(const at::Tensor& x, const at::Tensor& weight) const;
  const std::vector<at::Tensor>& entered(const at::Tensor& x);
  at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    const DividedWeight& divided);
  // The operators' handlers return an undefined tensor if the operator reads no listed weight.
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
  // Columns of the latest column-parallel product, 0 after a row-parallel product.
  std::int64_t columns_ = 0;
  // Columns of each column-parallel product since the last row-parallel product.
  std::vector<std::int64_t> open_columns_;
  std::optional<std::int64_t> columns_before_ = 0;
  bool has_products_ = false;
  std::int64_t opened_ = 0, closed_ = 0;
  std::shared_ptr<const DividedWeights> opener_;
  std::vector<std::int64_t>
      sizes_;          // of the column-parallel product's result; empty if in another layer
  SliceGroup region_;  // whether the input of the column-parallel product had divided rows
  std::unordered_map<const c10::TensorImpl*, Entry> weights_;
  std::unordered_map<const c10::TensorImpl*, std::string> whole_;  // undivided weights, with names
  // The latest input of a column-parallel product, and what enter() returned for it.
  at::Tensor input_;
  std::uint32_t input_version_ = 0;
  std::vector<at::Tensor> entered_;
};

}  // namespace sluice::detail
