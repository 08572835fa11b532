// '{' starts the JSON of a graph, 'R' a rule, and anything else an expression of sizes. A parsed
// graph must keep the invariants of exported_graph.h.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "archive/graph_json.h"
#include "archive/graph_nodes.h"
#include "family/aten_table.h"
#include "fuzz/require.h"
#include "sluice/error.h"

namespace {

using namespace sluice::detail;
using sluice::test::require;

template <typename Call>
bool holds_or_is_refused(Call&& call) {
  try {
    call();
    return true;
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kInput);
    return false;
  }
}

SymbolValues some_values(const std::set<std::string>& symbols) {
  SymbolValues values;
  for (const std::string& symbol : symbols)
    values[symbol] = static_cast<std::int64_t>(values.size()) + 3;
  return values;
}

void check_expression(std::string_view text) {
  SizeExpression expression;
  if (!holds_or_is_refused([&] { expression = SizeExpression::parse(text); })) return;
  std::set<std::string> symbols;
  expression.add_symbols(symbols);
  const SymbolValues values = some_values(symbols);
  // The text of an expression must parse to the same value, unless that text is longer than the
  // parser's limit.
  std::int64_t value = 0, again = 0;
  if (!holds_or_is_refused([&] { value = expression.at(values); })) return;
  const std::string said = expression.text();
  // the parser reads the sign separately, so -2^63 does not round-trip
  if (said.find("9223372036854775808") != std::string::npos) return;
  if (holds_or_is_refused([&] { again = SizeExpression::parse(said).at(values); }))
    require(again == value);
}

void check_rule(std::string_view text) {
  holds_or_is_refused([&] {
    const SizeRule rule = SizeRule::parse(text);
    rule.holds(some_values(rule.symbols()));
  });
}

struct Written {
  std::vector<bool> values;

  void write(int value) {
    require(value >= 0 && static_cast<std::size_t>(value) < values.size());
    require(!values[static_cast<std::size_t>(value)]);
    values[static_cast<std::size_t>(value)] = true;
  }
  void read(const GraphArgument& argument) const {
    if (argument.kind == GraphArgument::Kind::kValue) {
      require(argument.value >= 0 && static_cast<std::size_t>(argument.value) < values.size());
      require(values[static_cast<std::size_t>(argument.value)]);
    }
    for (const GraphArgument& each : argument.list) read(each);
  }
};

void check_program(std::string_view text) {
  holds_or_is_refused([&] {
    const GraphModule module = parse_graph_program(text, "model.json").module;
    Written written{std::vector<bool>(module.values.size())};
    for (const GraphInput& input : module.inputs) {
      if (input.value >= 0) written.write(input.value);
    }
    for (const GraphNode& node : module.nodes) {
      for (const auto& [name, argument] : node.arguments) written.read(argument);
      for (const GraphNode::Result& result : node.results) {
        for (const int value : result.values) {
          if (value >= 0) written.write(value);
        }
      }
      require(!to_text(node, module).empty());
      // Only operators in the table may write in place or share storage.
      for (const std::vector<int>& values : {values_changed(node), values_shared(node, module)})
        require(values.empty() || find_aten_row(node.target));
    }
    for (const GraphOutput& output : module.outputs) written.read(output.value);
    for (const bool is_written : written.values) require(is_written);
  });
}

}  // namespace

extern "C" int fuzz_graph_json(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with('{')) {
    check_program(text);
  } else if (text.starts_with('R')) {
    check_rule(text.substr(1));
  } else {
    check_expression(text);
  }
  return 0;
}
