#include "graph/check_rules.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using Sizes = std::vector<std::int64_t>;

struct KnownInput {
  const std::string* name;
  const std::vector<SizeExpression>* expected;
  const Sizes* found;
};

[[noreturn]] void throw_sizes(const std::string& what, const std::string& where) {
  throw Error(ErrorKind::kInput,
              {.what = what,
               .where = where,
               .remedy = "give sizes that the graph has, or export the model again with these "
                         "sizes free"});
}

std::string input_text(const KnownInput& input) {
  return "input '" + *input.name + "' " + shape_text(*input.found);
}

std::vector<KnownInput> known_inputs(const GraphModule& module, const InputSizes& sizes) {
  std::vector<KnownInput> known;
  for (const GraphInput& input : module.inputs) {
    if (input.kind != GraphInput::Kind::kBatch || input.value < 0) continue;
    const auto found = sizes.find(input.name);
    if (found == sizes.end()) continue;
    const GraphValue& value = module.values.at(static_cast<std::size_t>(input.value));
    known.push_back({&input.name, &value.sizes, &found->second});
    if (value.sizes.size() == found->second.size()) continue;
    throw_sizes(formatted("input '{}' has {}, but the graph was exported for {}", input.name,
                          counted(static_cast<std::int64_t>(found->second.size()), "dimension"),
                          value.sizes.size()),
                input_text(known.back()));
  }
  return known;
}

std::string inputs_with(const std::set<std::string>& symbols,
                        const std::vector<KnownInput>& known) {
  std::vector<std::string> texts;
  for (const KnownInput& input : known) {
    bool is_named = false;
    for (std::size_t dim = 0; dim < input.expected->size(); ++dim) {
      std::set<std::string> own{*input.name + "." + std::to_string(dim)};
      (*input.expected)[dim].add_symbols(own);
      is_named |= std::any_of(own.begin(), own.end(),
                              [&](const std::string& symbol) { return symbols.contains(symbol); });
    }
    if (is_named) texts.push_back(input_text(input));
  }
  return join(texts, ", ");
}

}  // namespace

void check_rules(const GraphModule& module, const InputSizes& sizes) {
  const std::vector<KnownInput> known = known_inputs(module, sizes);
  SymbolValues values;
  for (const KnownInput& input : known) {
    for (std::size_t dim = 0; dim < input.found->size(); ++dim) {
      values[*input.name + "." + std::to_string(dim)] = (*input.found)[dim];
      if (const auto symbol = (*input.expected)[dim].symbol())
        values.emplace(*symbol, (*input.found)[dim]);
    }
  }
  const auto has_all = [&](const std::set<std::string>& symbols) {
    return std::all_of(symbols.begin(), symbols.end(),
                       [&](const std::string& symbol) { return values.contains(symbol); });
  };
  for (const KnownInput& input : known) {
    for (std::size_t dim = 0; dim < input.found->size(); ++dim) {
      const SizeExpression& expected = (*input.expected)[dim];
      std::set<std::string> symbols;
      expected.add_symbols(symbols);
      if (!has_all(symbols) || expected.at(values) == (*input.found)[dim]) continue;
      const std::string exported =
          expected.is_number() ? expected.text()
                               : formatted("{}, here {}", expected.text(), expected.at(values));
      throw_sizes(
          formatted("input '{}' has size {} in dimension {}, but the graph was exported for {}",
                    *input.name, (*input.found)[dim], dim, exported),
          expected.is_number() ? input_text(input) : inputs_with(symbols, known));
    }
  }
  for (const SizeRange& range : module.ranges) {
    const auto value = values.find(range.symbol);
    if (value == values.end() || (range.least <= value->second && value->second <= range.most))
      continue;
    const std::string limits = range.most == INT64_MAX
                                   ? formatted("at least {}", range.least)
                                   : formatted("{} to {}", range.least, range.most);
    throw_sizes(formatted("size {} is {}, but the graph was exported for {}", range.symbol,
                          value->second, limits),
                inputs_with({range.symbol}, known));
  }
  for (const SizeRule& rule : module.rules) {
    if (!has_all(rule.symbols()) || rule.holds(values)) continue;
    throw_sizes("the sizes of the batch break the rule '" + rule.text() + "' of the exported graph",
                inputs_with(rule.symbols(), known));
  }
}

}  // namespace sluice::detail
