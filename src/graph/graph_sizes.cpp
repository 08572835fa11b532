#include "graph/graph_sizes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/format.h"
#include "graph/dtypes.h"
#include "sluice/error.h"
#include "sluice/parts/values.h"

namespace sluice::detail {
namespace {

// Number of cached results. A step has few different sizes.
constexpr std::size_t kNumSeen = 16;

}  // namespace

GraphSizes::GraphSizes(const GraphModule& module, const std::vector<const GraphInput*>& input_of,
                       const std::vector<int>& reads, const std::vector<int>& held) {
  const auto value_of = [&](int number) -> const GraphValue& {
    return module.values.at(static_cast<std::size_t>(number));
  };
  const auto each_size = [&](const auto& visit) {
    for (const bool is_held : {false, true}) {
      const std::vector<int>& values = is_held ? held : reads;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const GraphValue& value = value_of(values[i]);
        if (value.kind != GraphValue::Kind::kTensor) continue;
        for (std::size_t dim = 0; dim < value.sizes.size(); ++dim)
          visit(value.sizes[dim], Source{is_held, i, static_cast<std::int64_t>(dim)});
      }
    }
  };
  each_size([&](const SizeExpression& size, Source source) {
    if (size.symbol()) add_variable(size, source);
  });
  std::set<std::string> symbols;
  for (const SizeExpression& variable : variables_) symbols.insert(*variable.symbol());
  each_size([&](const SizeExpression& size, Source source) {
    std::set<std::string> own;
    size.add_symbols(own);
    if (!std::includes(symbols.begin(), symbols.end(), own.begin(), own.end()))
      add_variable(size, source);
  });
  for (const int number : reads) {
    const GraphValue& value = value_of(number);
    Read read{.name = "value '" + value.name + "'"};
    if (value.kind == GraphValue::Kind::kTensor)
      read.num_dims = static_cast<std::int64_t>(value.sizes.size());
    const GraphInput* input = input_of.at(static_cast<std::size_t>(number));
    if (input && input->kind == GraphInput::Kind::kBatch) {
      read.name = "input '" + input->name + "'";
      if (value.kind == GraphValue::Kind::kTensor) {
        read.dtype = value.dtype;
        read.type = scalar_type(value.dtype);
      }
    }
    reads_.push_back(std::move(read));
  }
  each_size([&](const SizeExpression& expression, Source source) {
    if (source.is_held) return;
    Size size{.read = source.tensor, .dim = source.dim, .expression = expression};
    if (expression.is_number()) {
      size.constant = expression.number();
    } else {
      size.number = find(expression);
    }
    sizes_.push_back(std::move(size));
  });
}

void GraphSizes::add_variable(const SizeExpression& expression, Source source) {
  if (find_variable(expression)) return;
  variables_.push_back(expression);
  sources_.push_back(source);
}

std::optional<std::size_t> GraphSizes::find_variable(const SizeExpression& expression) const {
  const auto variable = std::find(variables_.begin(), variables_.end(), expression);
  if (variable == variables_.end()) return std::nullopt;
  return static_cast<std::size_t>(variable - variables_.begin());
}

std::optional<std::size_t> GraphSizes::find(const SizeExpression& expression) {
  if (const auto variable = find_variable(expression)) return variable;
  std::set<std::string> symbols;
  expression.add_symbols(symbols);
  for (const std::string& symbol : symbols) {
    const bool is_known =
        std::any_of(variables_.begin(), variables_.end(),
                    [&](const SizeExpression& variable) { return variable.symbol() == symbol; });
    if (!is_known) return std::nullopt;
  }
  auto same = std::find(derived_.begin(), derived_.end(), expression);
  if (same == derived_.end()) same = derived_.insert(same, expression);
  return variables_.size() + static_cast<std::size_t>(same - derived_.begin());
}

std::vector<std::int64_t> GraphSizes::computed(const std::vector<std::int64_t>& variables) const {
  SymbolValues values;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (const auto symbol = variables_[i].symbol()) values[*symbol] = variables[i];
  }
  std::vector<std::int64_t> numbers = variables;
  for (const SizeExpression& expression : derived_) {
    try {
      numbers.push_back(expression.at(values));
    } catch (const Error& error) {
      throw error.at("size '" + expression.text() + "' of the exported graph");
    }
  }
  return numbers;
}

GraphSizes::Numbers GraphSizes::computed_once(std::vector<std::int64_t> variables) const {
  const std::lock_guard<std::mutex> lock(seen_->mutex);
  for (const auto& [sizes, numbers] : seen_->numbers) {
    if (sizes == variables) return numbers;
  }
  auto numbers = std::make_shared<const std::vector<std::int64_t>>(computed(variables));
  if (seen_->numbers.size() < kNumSeen) {
    seen_->numbers.emplace_back(std::move(variables), numbers);
  } else {
    seen_->numbers[seen_->next++ % kNumSeen] = {std::move(variables), numbers};
  }
  return numbers;
}

GraphSizes::Numbers GraphSizes::numbers(const std::vector<at::Tensor>& read,
                                        const std::vector<at::Tensor>& held) const {
  for (std::size_t i = 0; i < reads_.size(); ++i) {
    if (reads_[i].num_dims >= 0 && read[i].dim() != reads_[i].num_dims) {
      throw Error(ErrorKind::kInput,
                  {.what = formatted("{} has {} dimensions, but the graph was exported for {}",
                                     reads_[i].name, read[i].dim(), reads_[i].num_dims),
                   .remedy = "give tensors as the model was exported for"});
    }
    if (reads_[i].type && read[i].scalar_type() != *reads_[i].type) {
      throw Error(ErrorKind::kInput,
                  {.what = formatted("{} is {}, but the graph was exported for {}", reads_[i].name,
                                     dtype_name(read[i].scalar_type()), reads_[i].dtype),
                   .remedy = "convert it, or export the model again for this dtype"});
    }
  }
  std::vector<std::int64_t> variables;
  variables.reserve(sources_.size());
  for (const Source& source : sources_)
    variables.push_back((source.is_held ? held : read)[source.tensor].size(source.dim));
  Numbers numbers = computed_once(std::move(variables));
  for (const Size& size : sizes_) {
    const std::int64_t expected = size.number ? (*numbers)[*size.number] : size.constant;
    const std::int64_t found = read[size.read].size(size.dim);
    if (found == expected) continue;
    const std::string exported = size.number
                                     ? formatted("{}, here {}", size.expression.text(), expected)
                                     : std::to_string(expected);
    throw Error(
        ErrorKind::kInput,
        {.what = formatted("{} has size {} in dimension {}, but the graph was exported for {}",
                           reads_[size.read].name, found, size.dim, exported),
         .remedy = "give sizes that the graph has, or export the model again with this size free"});
  }
  return numbers;
}

}  // namespace sluice::detail
