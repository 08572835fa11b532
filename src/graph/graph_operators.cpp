#include "graph/graph_operators.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/key_hash.h"
#include "family/aten_table.h"

namespace sluice::detail {
namespace {

struct TargetName {
  std::string name;  // "aten::linear"
  std::string overload;
};

std::optional<TargetName> parse_target(std::string_view target) {
  const std::size_t first = target.find('.');
  const std::size_t last = target.rfind('.');
  if (first == std::string_view::npos || first == last) return std::nullopt;
  TargetName parsed;
  parsed.name.append(target.substr(0, first)).append("::");
  parsed.name.append(target.substr(first + 1, last - first - 1));
  if (target.substr(last + 1) != "default") parsed.overload = target.substr(last + 1);
  return parsed;
}

constexpr std::array<std::string_view, 4> kRecurrent{"aten::lstm", "aten::gru", "aten::rnn_tanh",
                                                     "aten::rnn_relu"};

template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct TrainingArgument {
  std::string_view op;
  std::string_view argument;
  bool needs_running = false;  // without running statistics, evaluation is the same
};

constexpr std::array<TrainingArgument, 19> kTrainingArguments{{
    {"aten::dropout", "train"},
    {"aten::dropout_", "train"},
    {"aten::native_dropout", "train"},
    {"aten::feature_dropout", "train"},
    {"aten::feature_dropout_", "train"},
    {"aten::alpha_dropout", "train"},
    {"aten::alpha_dropout_", "train"},
    {"aten::feature_alpha_dropout", "train"},
    {"aten::feature_alpha_dropout_", "train"},
    {"aten::rrelu", "training"},
    {"aten::rrelu_", "training"},
    {"aten::rrelu_with_noise", "training"},
    {"aten::rrelu_with_noise_", "training"},
    {"aten::lstm", "train"},
    {"aten::gru", "train"},
    {"aten::rnn_tanh", "train"},
    {"aten::rnn_relu", "train"},
    {"aten::batch_norm", "training", true},
    {"aten::instance_norm", "use_input_stats", true},
}};

bool is_attention(std::string_view op) {
  return op.starts_with("aten::scaled_dot_product_") ||
         op.starts_with("aten::_scaled_dot_product_");
}

template <typename Call>
auto argument_of(Call& call, std::string_view name) -> decltype(&call.arguments.front()) {
  const auto number = call.op->schema().argumentIndexWithName(name);
  return number ? &call.arguments[static_cast<std::size_t>(*number)] : nullptr;
}

bool is_constant(const BoundArgument* argument) {
  return argument && argument->kind == BoundArgument::Kind::kConstant;
}
bool is_false(const BoundArgument* argument) {
  return is_constant(argument) && argument->constant.isBool() && !argument->constant.toBool();
}
bool is_zero(const BoundArgument* argument) {
  return is_constant(argument) && argument->constant.isDouble() &&
         argument->constant.toDouble() == 0;
}
bool is_none(const BoundArgument* argument) {
  return is_constant(argument) && argument->constant.isNone();
}

const GraphOperator* find_added(std::string_view target, const std::vector<GraphOperator>& added) {
  const auto parsed = parse_target(target);
  if (!parsed) return nullptr;
  const std::string with_overload = parsed->name + "." + parsed->overload;
  for (const GraphOperator& known : added) {
    if (known.name == with_overload || (known.name == parsed->name && parsed->overload.empty()))
      return &known;
  }
  return nullptr;
}

}  // namespace

FoundOperator find_operator(std::string_view target, const std::vector<GraphOperator>& added) {
  if (const GraphOperator* known = find_added(target, added)) return {.added = known};
  if (!find_aten_row(target)) return {};
  const auto parsed = parse_target(target);
  return {.op = c10::Dispatcher::singleton().findSchema({parsed->name, parsed->overload})};
}

bool may_draw(std::string_view target, const std::vector<GraphOperator>& added) {
  if (const GraphOperator* known = find_added(target, added)) return known->is_random;
  const AtenRow* row = find_aten_row(target);
  return row && row->draws;
}

bool draws(const GraphCall& call) {
  if (!call.op) return true;
  const std::string& name = call.op->operator_name().name;
  if (is_attention(name)) return !is_zero(argument_of(call, "dropout_p"));
  if (contains(kRecurrent, name))
    return !is_false(argument_of(call, "train")) && !is_zero(argument_of(call, "dropout"));
  for (const TrainingArgument& row : kTrainingArguments) {
    if (row.op != name || row.needs_running) continue;
    return !is_false(argument_of(call, row.argument)) && !is_zero(argument_of(call, "p"));
  }
  return true;
}

bool switch_to_evaluation(GraphCall& call) {
  if (!call.op) return false;
  const std::string& name = call.op->operator_name().name;
  if (is_attention(name)) {
    BoundArgument* probability = argument_of(call, "dropout_p");
    if (!probability || is_zero(probability)) return false;
    *probability = {};
    probability->constant = 0.0;
    return true;
  }
  for (const TrainingArgument& row : kTrainingArguments) {
    if (row.op != name) continue;
    BoundArgument* training = argument_of(call, row.argument);
    const BoundArgument* running = argument_of(call, "running_mean");
    if (!training || is_false(training)) return false;
    if (row.needs_running && (!running || is_none(running))) return false;
    *training = {};
    training->constant = false;
    return true;
  }
  return false;
}

std::unordered_map<int, std::uint64_t> random_names(const GraphModule& module,
                                                    const std::vector<GraphOperator>& added) {
  std::unordered_map<int, std::uint64_t> names;
  std::unordered_map<std::string_view, bool> may_draw_by_target;
  std::unordered_map<std::string_view, std::uint64_t> num_by_path;
  for (std::size_t i = 0; i < module.nodes.size(); ++i) {
    const GraphNode& node = module.nodes[i];
    const auto [target, is_new] = may_draw_by_target.try_emplace(node.target, false);
    if (is_new) target->second = may_draw(node.target, added);
    if (!target->second) continue;
    const std::string& path = node.module_path();
    names[static_cast<int>(i)] = absorb(hash_name(path), num_by_path[path]++);
  }
  return names;
}

}  // namespace sluice::detail
