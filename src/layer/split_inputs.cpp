#include "layer/split_inputs.h"

#include <ATen/Functions.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor_split.h>

#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using Names = std::vector<std::string>;
using Tensors = std::vector<at::Tensor>;

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "inputs of a step", .remedy = remedy});
}

std::vector<const Input*> by_name(const Inputs& inputs, const Model& model) {
  static const Input absent = Input::replicated({});
  const Names& names = model.inputs;
  const Names& optional = model.optional_inputs;
  if (!inputs.named().empty() && !inputs.in_order().empty())
    refuse("some inputs have names, but some have none", "give all by name, or all in order");
  std::vector<const Input*> found(names.size());
  if (inputs.in_order().size() > names.size()) {
    refuse(formatted("{} inputs are given, but the model has {}", inputs.in_order().size(),
                     names.size()),
           "give the values of Model::inputs, in its order");
  }
  for (std::size_t i = 0; i < inputs.in_order().size(); ++i) found[i] = &inputs.in_order()[i];
  for (const auto& [name, input] : inputs.named()) {
    const auto place = std::find(names.begin(), names.end(), name);
    if (place == names.end())
      refuse("the model has no input '" + name + "'",
             suggest_name(name, names) + " (Model::inputs names what a batch holds)");
    const Input*& slot = found[static_cast<std::size_t>(place - names.begin())];
    if (slot) refuse("the input '" + name + "' is given twice", "give each input once");
    slot = &input;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (found[i]) continue;
    if (std::find(optional.begin(), optional.end(), names[i]) == optional.end())
      refuse("the input '" + names[i] + "' is missing", "give every name of Model::inputs");
    found[i] = &absent;
  }
  return found;
}

std::int64_t length_of(const std::string& name, const Input& input) {
  const at::Tensor& tensor = input.tensors().front();
  if (!tensor.defined())
    refuse("the input '" + name + "' is an undefined tensor",
           "give an optional value by Input::per_microbatch");
  const std::int64_t dim = input.dim() < 0 ? input.dim() + tensor.dim() : input.dim();
  if (dim < 0 || dim >= tensor.dim()) {
    refuse(formatted("the input '{}', {}, has no dimension {} to cut", name,
                     to_text(meta_of(tensor)), input.dim()),
           "give Input::split a dimension of the tensor, or Input::replicated");
  }
  return tensor.size(dim);
}

std::int64_t rows_of_ragged(const std::string& name, const Input& input) {
  const std::vector<std::int64_t>& lengths = input.lengths();
  if (std::any_of(lengths.begin(), lengths.end(), [](auto length) { return length < 0; }))
    refuse("the input '" + name + "' has a row of negative length", "give lengths of 0 or more");
  const std::int64_t together = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const std::int64_t length = length_of(name, input);
  if (together != length) {
    refuse(
        formatted("the rows of '{}' add up to {}, but the tensor has {}", name, together, length),
        "give Input::ragged the length of every row");
  }
  return static_cast<std::int64_t>(lengths.size());
}

std::int64_t rows_of_offsets(const std::string& name, const Input& input) {
  const at::Tensor& tensor = input.tensors().front();
  const auto refuse_offsets = [&](const std::string& what) {
    refuse(formatted("the offsets '{}' {}", name, what),
           "give Input::offsets integers [rows + 1] that ascend from 0");
  };
  if (!tensor.defined() || tensor.dim() != 1 || tensor.size(0) < 1 ||
      at::isFloatingType(tensor.scalar_type()))
    refuse_offsets(tensor.defined() ? "are " + to_text(meta_of(tensor)) : "are undefined");
  if (tensor.is_meta()) return tensor.size(0) - 1;
  if (tensor[0].item<std::int64_t>() != 0) refuse_offsets("do not start with 0");
  if (tensor.diff().lt(0).any().item<bool>()) refuse_offsets("descend");
  return tensor.size(0) - 1;
}

std::vector<std::int64_t> even_parts(std::int64_t rows, int parts) {
  std::vector<std::int64_t> sizes;
  for (int part = 0; part < parts; ++part) sizes.push_back(rows / parts + (part < rows % parts));
  return sizes;
}

Tensors cut_ragged(const Input& input, int parts) {
  Tensors cut;
  auto length = input.lengths().begin();
  std::int64_t start = 0;
  for (const std::int64_t rows :
       even_parts(static_cast<std::int64_t>(input.lengths().size()), parts)) {
    const std::int64_t size = std::accumulate(length, length + rows, std::int64_t{0});
    cut.push_back(input.tensors().front().narrow(input.dim(), start, size));
    length += rows;
    start += size;
  }
  return cut;
}

Tensors cut_offsets(const Input& input, int parts) {
  const at::Tensor& offsets = input.tensors().front();
  Tensors cut;
  std::int64_t first = 0;
  for (const std::int64_t rows : even_parts(offsets.size(0) - 1, parts)) {
    cut.push_back(offsets.narrow(0, first, rows + 1) - offsets[first]);
    first += rows;
  }
  return cut;
}

Tensors cut(const Input& input, int parts) {
  switch (input.kind()) {
    case Input::Kind::kSplit:
      return input.tensors().front().tensor_split(parts, input.dim());
    case Input::Kind::kReplicated:
      return Tensors(static_cast<std::size_t>(parts), input.tensors().front());
    case Input::Kind::kRagged:
      return cut_ragged(input, parts);
    case Input::Kind::kOffsets:
      return cut_offsets(input, parts);
    default:
      return input.tensors();
  }
}

}  // namespace

Input Input::split(at::Tensor tensor, std::int64_t dim) {
  return {Kind::kSplit, {std::move(tensor)}, dim};
}
Input Input::replicated(at::Tensor tensor) { return {Kind::kReplicated, {std::move(tensor)}, 0}; }
Input Input::ragged(at::Tensor tensor, std::vector<std::int64_t> lengths, std::int64_t dim) {
  Input input(Kind::kRagged, {std::move(tensor)}, dim);
  input.lengths_ = std::move(lengths);
  return input;
}
Input Input::offsets(at::Tensor tensor) { return {Kind::kOffsets, {std::move(tensor)}, 0}; }
Input Input::per_microbatch(std::vector<at::Tensor> tensors) {
  return {Kind::kPerMicrobatch, std::move(tensors), 0};
}
Input Input::sizes(const TensorMeta& meta) {
  return split(at::empty(meta.sizes, at::TensorOptions(meta.dtype).device(at::kMeta)), 0);
}

BatchSplit::BatchSplit(const Inputs& inputs, const Model& model)
    : names_(model.inputs), inputs_(by_name(inputs, model)) {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const std::string& name = names_[i];
    const Input& input = *inputs_[i];
    switch (input.kind()) {
      case Input::Kind::kReplicated:
        break;
      case Input::Kind::kPerMicrobatch:
        learn_given(name, static_cast<std::int64_t>(input.tensors().size()));
        break;
      case Input::Kind::kSplit:
        learn_rows(name, length_of(name, input));
        break;
      case Input::Kind::kRagged:
        learn_rows(name, rows_of_ragged(name, input));
        break;
      case Input::Kind::kOffsets:
        learn_rows(name, rows_of_offsets(name, input));
        break;
    }
  }
  require_offsets_of_rows();
  if (rows_ && rows_->count == 0)
    refuse("'" + rows_->name + "' has no rows", "give at least one row");
  if (given_ && rows_ && rows_->count < given_->count) {
    refuse(formatted("'{}' has {} for the {} microbatches of '{}'", rows_->name,
                     counted(rows_->count, "row"), given_->count, given_->name),
           "give at least one row a microbatch");
  }
}

// Requires that each offsets input matches the row lengths of a ragged input, if there are any.
void BatchSplit::require_offsets_of_rows() const {
  std::vector<const Input*> ragged;
  for (const Input* input : inputs_) {
    if (input->kind() == Input::Kind::kRagged) ragged.push_back(input);
  }
  if (ragged.empty()) return;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const at::Tensor& offsets = inputs_[i]->tensors().front();
    if (inputs_[i]->kind() != Input::Kind::kOffsets || offsets.is_meta()) continue;
    const at::Tensor lengths = offsets.diff().to(at::kCPU, at::kLong);
    const bool fits = std::any_of(ragged.begin(), ragged.end(), [&](const Input* input) {
      return at::equal(lengths, at::tensor(input->lengths(), at::kLong));
    });
    if (!fits)
      refuse("the offsets '" + names_[i] + "' belong to other rows than the ragged input's",
             "give Input::ragged and Input::offsets the same lengths");
  }
}

void BatchSplit::require_row_count() const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = *inputs_[i];
    const at::Tensor& tensor = input.tensors().front();
    if (!tensor.defined() || tensor.dim() == 0) continue;
    const bool by_rows =
        input.kind() == Input::Kind::kPerMicrobatch ||
        (input.kind() == Input::Kind::kSplit && (input.dim() == 0 || input.dim() == -tensor.dim()));
    if (by_rows) return;
    refuse("the rows of a microbatch are counted by '" + names_[i] + "', which is not cut by rows",
           "name an input cut by rows first in Model::inputs, or set Model::count");
  }
}

void BatchSplit::require_no_gradient() const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    for (const at::Tensor& tensor : inputs_[i]->tensors()) {
      if (!tensor.defined() || !tensor.requires_grad()) continue;
      refuse("the input '" + names_[i] +
                 "' requires a gradient, but a step computes those of parameters "
                 "alone",
             "pass it without its graph: " + names_[i] + ".detach()");
    }
  }
}

void BatchSplit::learn_rows(const std::string& name, std::int64_t rows) {
  if (rows_ && rows_->count != rows) {
    refuse(formatted("'{}' has {} to cut, but '{}' has {}", name, counted(rows, "row"), rows_->name,
                     rows_->count),
           "give inputs of one length, or Input::replicated");
  }
  rows_ = {rows, name};
}

void BatchSplit::learn_given(const std::string& name, std::int64_t count) {
  if (count == 0) refuse("the input '" + name + "' has no microbatches", "give at least one");
  if (given_ && given_->count != count) {
    refuse(formatted("'{}' is given for {} microbatches, but '{}' for {}", name, count,
                     given_->name, given_->count),
           "give both for the same microbatches");
  }
  given_ = {count, name};
}

int BatchSplit::num_microbatches(int most) const {
  if (given_) return static_cast<int>(given_->count);
  return static_cast<int>(std::min<std::int64_t>(most, rows_ ? rows_->count : most));
}

std::vector<Values> BatchSplit::microbatches(int num_microbatches) const {
  std::vector<Values> microbatches(static_cast<std::size_t>(num_microbatches));
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const Tensors parts = cut(*inputs_[i], num_microbatches);
    for (std::size_t m = 0; m < microbatches.size(); ++m) microbatches[m].set(names_[i], parts[m]);
  }
  return microbatches;
}

}  // namespace sluice
