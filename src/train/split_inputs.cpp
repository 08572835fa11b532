#include "train/split_inputs.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor_split.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "inputs of a step", .remedy = remedy});
}

const Input& find(const Inputs& inputs, const std::string& name) {
  const auto found = std::find_if(inputs.begin(), inputs.end(),
                                  [&](const auto& item) { return item.first == name; });
  return found->second;
}

void require_names(const Inputs& inputs, const Model& model) {
  std::vector<std::string> seen;
  for (const auto& [name, input] : inputs) {
    if (std::find(model.inputs.begin(), model.inputs.end(), name) == model.inputs.end()) {
      refuse("the model has no input '" + name + "'", suggest_name(name, model.inputs));
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      refuse("the input '" + name + "' is given twice", "give each input once");
    seen.push_back(name);
  }
  for (const std::string& name : model.inputs) {
    if (std::find(seen.begin(), seen.end(), name) == seen.end())
      refuse("the input '" + name + "' is missing", "give every name of Model::inputs");
  }
}

// Along what is cut.
std::int64_t length_of(const std::string& name, const Input& input) {
  const at::Tensor& tensor = input.tensors().front();
  if (!tensor.defined())
    refuse("the input '" + name + "' is an undefined tensor",
           "give an optional value by Input::per_microbatch");
  const std::int64_t dim = input.dim() < 0 ? input.dim() + tensor.dim() : input.dim();
  if (dim < 0 || dim >= tensor.dim()) {
    refuse("the input '" + name + "', " + to_text(meta_of(tensor)) + ", has no dimension " +
               std::to_string(input.dim()) + " to cut",
           "give Input::split a dimension of the tensor, or Input::replicated");
  }
  return tensor.size(dim);
}

}  // namespace

Input Input::split(at::Tensor tensor, std::int64_t dim) {
  return {Kind::kSplit, {std::move(tensor)}, dim};
}
Input Input::replicated(at::Tensor tensor) { return {Kind::kReplicated, {std::move(tensor)}, 0}; }
Input Input::per_microbatch(std::vector<at::Tensor> tensors) {
  return {Kind::kPerMicrobatch, std::move(tensors), 0};
}
Input Input::sizes(const TensorMeta& meta) {
  return split(at::empty(meta.sizes, at::TensorOptions(meta.dtype).device(at::kMeta)), 0);
}

int num_microbatches_of(const Inputs& inputs, const Model& model, int most) {
  require_names(inputs, model);
  std::optional<std::int64_t> rows, given;
  std::string rows_of, given_by;
  for (const auto& [name, input] : inputs) {
    if (input.kind() == Input::Kind::kReplicated) continue;
    if (input.kind() == Input::Kind::kPerMicrobatch) {
      const auto count = static_cast<std::int64_t>(input.tensors().size());
      if (count == 0) refuse("the input '" + name + "' has no microbatches", "give at least one");
      if (given && *given != count) {
        refuse("'" + name + "' is given for " + std::to_string(count) + " microbatches, '" +
                   given_by + "' for " + std::to_string(*given),
               "give both for the same microbatches");
      }
      given = count;
      given_by = name;
      continue;
    }
    const std::int64_t length = length_of(name, input);
    if (rows && *rows != length) {
      refuse("'" + name + "' is " + std::to_string(length) + " long where it is cut, '" + rows_of +
                 "' " + std::to_string(*rows),
             "give inputs of one length, or Input::replicated");
    }
    rows = length;
    rows_of = name;
  }
  if (given && rows && *rows < *given) {
    refuse("'" + rows_of + "' has " + counted(*rows, "row") + " for the " + std::to_string(*given) +
               " microbatches of '" + given_by + "'",
           "give at least one row a microbatch");
  }
  if (given) return static_cast<int>(*given);
  if (rows && *rows == 0) refuse("'" + rows_of + "' has no rows", "give at least one row");
  return static_cast<int>(std::min<std::int64_t>(most, rows.value_or(most)));
}

std::vector<Values> split_inputs(const Inputs& inputs, const Model& model, int num_microbatches) {
  std::vector<Values> microbatches(static_cast<std::size_t>(num_microbatches));
  for (const std::string& name : model.inputs) {
    const Input& input = find(inputs, name);
    std::vector<at::Tensor> parts = input.tensors();
    if (input.kind() == Input::Kind::kSplit)
      parts = parts.front().tensor_split(num_microbatches, input.dim());
    for (std::size_t m = 0; m < microbatches.size(); ++m)
      microbatches[m].set(name, parts[input.kind() == Input::Kind::kReplicated ? 0 : m]);
  }
  return microbatches;
}

}  // namespace sluice
