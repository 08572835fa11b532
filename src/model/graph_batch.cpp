#include "model/graph_batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "graph/dtypes.h"
#include "model/microbatch_rows.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

at::ScalarType type_of_input(const ValueSpec& input) {
  if (const auto type = scalar_type(input.dtype)) return *type;
  throw Error(ErrorKind::kInput,
              {.what = formatted("the input '{}' of the graph is {}, which torch "
                                 "does not have",
                                 input.name, input.dtype),
               .remedy = "export the model again, with this release of torch"});
}

[[noreturn]] void refuse_missing(const TokenRows& rows, const ValueSpec& input) {
  std::vector<std::string> given;
  if (rows.seq_len > 0) given = {"input_ids", "labels"};
  for (const FieldRows& field : rows.fields) given.push_back(field.field.name);
  throw Error(ErrorKind::kInput,
              {.what = formatted("the rows have no '{}', an input of the graph", input.name),
               .where = "they have " + join(given, ", "),
               .remedy = "list the field in TokenDataOptions::fields"});
}

at::Tensor input_of_rows(const TokenRows& all, const MicrobatchRows& rows, const ValueSpec& input) {
  for (const FieldRows& field : all.fields)
    if (field.field.name == input.name) return rows.field(field);
  if (all.seq_len > 0) {
    if (input.name == "input_ids") return rows.tensor(all.ids);
    if (input.name == "labels") return rows.tensor(all.labels);
    if (input.name == "attention_mask") {
      return rows.has_mask() ? rows.tensor(all.attention_mask)
                             : at::ones({rows.count(), rows.length()}, at::kLong);
    }
    if (input.name == "position_ids") {
      return rows.has_positions() ? rows.tensor(all.position_ids)
                                  : at::arange(rows.length(), at::kLong).repeat({rows.count(), 1});
    }
  }
  refuse_missing(all, input);
}

// Avoids zeros, denormals and equal values.
at::Tensor some_floats(const std::vector<std::int64_t>& sizes) {
  std::int64_t numel = 1;
  for (const std::int64_t size : sizes) numel *= size;
  return at::arange(numel, at::kFloat).mul(0.7).sin().reshape(sizes);
}

}  // namespace

Values graph_inputs(const TokenRows& rows, std::int64_t first, std::int64_t count,
                    const std::vector<ValueSpec>& inputs) {
  const MicrobatchRows of(rows, first, count);
  Values values;
  for (const ValueSpec& input : inputs)
    values.set(input.name, input_of_rows(rows, of, input).to(type_of_input(input)));
  return values;
}

StepBatch graph_batch(TokenRows rows, const Model& model, std::int64_t microbatch_size,
                      std::int64_t step) {
  StepBatch result;
  result.step = step;
  const auto held = std::make_shared<const TokenRows>(std::move(rows));
  const std::shared_ptr<const ModelSpec> spec = model.description;
  for (std::int64_t first = 0; first < held->num_rows; first += microbatch_size) {
    const std::int64_t count = std::min(microbatch_size, held->num_rows - first);
    const auto make = [held, spec, first, count] {
      return graph_inputs(*held, first, count, spec->inputs);
    };
    result.counts.push_back(model.count(make()));
    result.microbatches.push_back(make);
  }
  return result;
}

StepBatch graph_batch(StepShare share, const Model& model, std::int64_t first_row,
                      std::int64_t microbatch_size, std::int64_t step) {
  StepBatch result = graph_batch(std::move(share.rows), model, microbatch_size, step);
  result.first_microbatch = first_row / microbatch_size;
  result.total_count = share.total_counted;
  return result;
}

Values made_up_inputs(const ModelSpec& model, const MicrobatchShape& shape) {
  Values values;
  for (const ValueSpec& input : model.inputs) {
    const std::vector<std::int64_t> sizes = input.sizes_at(shape);
    const at::ScalarType type = type_of_input(input);
    const bool is_ids =
        input.name.ends_with("input_ids") || (input.name == "labels" && sizes.size() > 1);
    at::Tensor value;
    if (at::isFloatingType(type) || at::isComplexType(type)) {
      value = some_floats(sizes);
    } else if (input.name.ends_with("attention_mask") || type == at::kBool) {
      value = at::ones(sizes, at::kLong);
    } else if (input.name.ends_with("position_ids") && sizes.size() == 2) {
      value = at::arange(sizes[1], at::kLong).repeat({sizes[0], 1});
    } else if (is_ids && model.vocab_size > 0) {
      std::int64_t numel = 1;
      for (const std::int64_t size : sizes) numel *= size;
      value = at::arange(numel, at::kLong).mul(7919).add(13).remainder(model.vocab_size);
      value = value.reshape(sizes);
    } else {
      value = at::zeros(sizes, at::kLong);
    }
    values.set(input.name, value.to(type));
  }
  return values;
}

}  // namespace sluice::detail
