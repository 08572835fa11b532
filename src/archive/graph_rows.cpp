#include "archive/graph_rows.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "archive/id_limits.h"
#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using GraphSizes = std::vector<SizeExpression>;

bool is_integer(std::string_view dtype) { return dtype.starts_with("int") || dtype == "uint8"; }

class GraphRows {
 public:
  GraphRows(const GraphOfModel& graph, std::int64_t vocab_size)
      : graph_(graph), module_(graph_.graph.training), vocab_size_(vocab_size) {}

  RowNeeds found() const {
    const GraphInput* ids = input("input_ids");
    RowNeeds data;
    data.takes_mask = data.takes_positions = false;
    data.tokens = ids && is_tokens(*ids);
    const bool is_causal = graph_.loss.is_causal();
    for (const GraphInput& each : module_.inputs) {
      if (!is_of_batch(each)) continue;
      const bool as_tokens = data.tokens && value(each).sizes == value(*ids).sizes;
      if (as_tokens && each.name == "attention_mask") {
        data.takes_mask = data.masks_padding = true;
      } else if (as_tokens && each.name == "position_ids") {
        data.takes_positions = true;
      } else if (!data.tokens || (each.name != "input_ids" && each.name != "labels")) {
        data.fields.push_back(field(each, data.tokens));
      }
    }
    if (!data.tokens && is_causal && !input("labels"))
      data.fields.push_back({"labels", "int64", {kAnySize}, classes_of_logits(), kIgnoredLabel});
    if (data.tokens) {
      data.vocab_size = vocabulary(*ids);
      data.num_labels = is_causal ? classes_of_logits() : below(input("labels"));
      if (data.num_labels == 0) data.num_labels = data.vocab_size;
    }
    data.count = data.tokens && is_causal ? CountOf::kLabels : CountOf::kRows;
    data.counts_by_model =
        data.tokens ? !graph_.loss.count.empty() : is_causal || !graph_.loss.count.empty();
    return data;
  }

 private:
  const GraphValue& value(const GraphInput& input) const {
    return module_.values[static_cast<std::size_t>(input.value)];
  }
  bool is_of_batch(const GraphInput& input) const {
    return input.kind == GraphInput::Kind::kBatch && input.value >= 0 &&
           value(input).kind == GraphValue::Kind::kTensor;
  }
  const GraphInput* input(std::string_view name) const {
    for (const GraphInput& each : module_.inputs)
      if (is_of_batch(each) && each.name == name) return &each;
    return nullptr;
  }

  // Whether `ids` are tokens, which need labels: an input or the causal loss.
  bool is_tokens(const GraphInput& ids) const {
    const GraphSizes& sizes = value(ids).sizes;
    if (sizes.size() != 2 || !is_integer(value(ids).dtype) || !is_rows(sizes[0])) return false;
    const GraphInput* labels = input("labels");
    if (labels) return value(*labels).sizes == sizes && is_integer(value(*labels).dtype);
    if (!graph_.loss.is_causal()) return false;
    for (const GraphOutput& output : module_.outputs) {
      if (output.name != graph_.loss.output || output.value.kind != GraphArgument::Kind::kValue)
        continue;
      const GraphSizes& logits = module_.values[static_cast<std::size_t>(output.value.value)].sizes;
      return logits.size() == 3 && logits[0] == sizes[0] && logits[1] == sizes[1];
    }
    return false;
  }

  bool is_rows(const SizeExpression& size) const {
    if (!graph_.rows_symbol.empty()) return size.symbol() == graph_.rows_symbol;
    return size.is_number();  // fixed number of rows
  }

  FieldOption field(const GraphInput& of, bool tokens) const {
    const GraphSizes& sizes = value(of).sizes;
    // If the first size is free, such as a number of images, rows have different numbers of items.
    const bool is_concatenated = !sizes.empty() && !is_rows(sizes[0]) && !sizes[0].is_number();
    if (sizes.empty() || (!is_rows(sizes[0]) && !is_concatenated)) {
      std::vector<std::string> texts;
      for (const SizeExpression& size : sizes) texts.push_back(size.text());
      throw Error(ErrorKind::kInput,
                  {.what = formatted("the input '{}' of the graph is [{}] without a dimension of "
                                     "rows, so data cannot provide it",
                                     of.name, join(texts, ", ")),
                   .where = graph_.graph.path,
                   .remedy = "export the model with a first dimension of rows in every input, or "
                             "one whose size varies, such as the number of images"});
    }
    FieldOption option{of.name, value(of).dtype};
    option.concatenated = is_concatenated;
    if (is_concatenated) option.sizes.push_back(kAnySize);
    if (is_integer(option.dtype)) {
      if (const auto limit = id_limit(module_, of.value)) {
        option.below = limit->below;
        option.ignored = limit->ignored;
      }
    }
    for (std::size_t d = 1; d < sizes.size(); ++d) {
      if (sizes[d].is_number())
        option.sizes.push_back(sizes[d].number());
      else if (tokens && !is_concatenated && sizes[d].symbol() == graph_.length_symbol)
        option.sizes.push_back(kRowTokens);
      else
        option.sizes.push_back(kAnySize);
    }
    return option;
  }

  // Returns 0 if no limit is known.
  std::int64_t below(const GraphInput* of) const {
    const auto limit = of ? id_limit(module_, of->value) : std::nullopt;
    return limit ? limit->below : 0;
  }

  std::int64_t classes_of_logits() const {
    for (const GraphOutput& output : module_.outputs) {
      if (output.name != graph_.loss.output || output.value.kind != GraphArgument::Kind::kValue)
        continue;
      const GraphSizes& logits = module_.values[static_cast<std::size_t>(output.value.value)].sizes;
      if (!logits.empty() && logits.back().is_number()) return logits.back().number();
    }
    return 0;
  }

  std::int64_t vocabulary(const GraphInput& ids) const {
    if (const std::int64_t table = below(&ids); table > 0) return table;
    if (vocab_size_ > 0) return vocab_size_;
    return std::numeric_limits<std::int32_t>::max();
  }

  const GraphOfModel& graph_;
  const GraphModule& module_;
  const std::int64_t vocab_size_;
};

}  // namespace

RowNeeds rows_of_graph(const GraphOfModel& graph, std::int64_t vocab_size) {
  return GraphRows(graph, vocab_size).found();
}

}  // namespace sluice::detail
