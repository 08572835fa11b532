#include "archive/graph_units.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "archive/graph_nodes.h"
#include "base/format.h"
#include "base/nearest_name.h"
#include "family/aten_operators.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using InputKind = GraphInput::Kind;
using Names = std::vector<std::string>;

bool is_inside(const std::string& path, const std::string& holder) {
  return holder.empty() ? !path.empty() : path.starts_with(holder + ".");
}

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Returns the path up to its first number, or "".
std::string element_of_list(const std::string& path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    if (begin > 0 && is_number(std::string_view(path).substr(begin, end - begin)))
      return path.substr(0, end);
    begin = end + 1;
  }
  return {};
}

std::int64_t unit_dtype_size(const std::string& dtype) {
  return dtype.starts_with("complex") ? 8 : dtype_bytes(dtype);
}

}  // namespace

bool is_class(const std::string& full, const std::string& name) {
  return full == name || (full.size() > name.size() && full.ends_with(name) &&
                          full[full.size() - name.size() - 1] == '.');
}

GraphUnits::GraphUnits(const GraphFlow& flow, const GraphCuts& cuts) : flow_(flow), cuts_(cuts) {
  position_of_.assign(flow_.module().nodes.size(), -1);
  for (std::size_t p = 0; p < flow_.order().size(); ++p)
    position_of_[static_cast<std::size_t>(flow_.order()[p])] = static_cast<int>(p);
  find_blocks();
  find_crossing();
}

void GraphUnits::find_blocks() {
  std::set<std::string> classes;
  for (const int i : flow_.order()) {
    for (const ModuleCall& call : flow_.node(i).modules) {
      if (!cuts_.layer_class.empty()) {
        classes.insert(call.class_name.substr(call.class_name.rfind('.') + 1));
        if (is_class(call.class_name, cuts_.layer_class)) {
          blocks_.insert(call.path);
          break;
        }
      } else if (const std::string block = element_of_list(call.path); !block.empty()) {
        blocks_.insert(block);
        break;
      }
    }
  }
  if (blocks_.empty() && !cuts_.layer_class.empty()) {
    throw Error(ErrorKind::kUsage,
                {.what = "the graph has no module of class '" + cuts_.layer_class + "'",
                 .where = "`layer_class`, in a configuration `model.transformer_layer_cls`",
                 .remedy = suggest_name(cuts_.layer_class, Names(classes.begin(), classes.end()))});
  }
  if (!blocks_.empty()) return;
  // Without blocks, use the outermost modules that have siblings.
  std::string opened;
  while (true) {
    std::set<std::string> children;
    for (const int i : flow_.order())
      for (const ModuleCall& call : flow_.node(i).modules)
        if (is_inside(call.path, opened) &&
            call.path.find('.', opened.empty() ? 0 : opened.size() + 1) == std::string::npos)
          children.insert(call.path);
    if (children.size() > 1) blocks_ = children;
    if (children.size() != 1) break;
    opened = *children.begin();
  }
}

bool GraphUnits::is_named(const std::string& path) const {
  return std::find(cuts_.modules.begin(), cuts_.modules.end(), path) != cuts_.modules.end();
}

bool GraphUnits::contains_named(const std::string& path) const {
  return std::any_of(cuts_.modules.begin(), cuts_.modules.end(),
                     [&](const std::string& name) { return is_inside(name, path); });
}

bool GraphUnits::contains_blocks(const std::string& path) const {
  const auto next = blocks_.lower_bound(path + ".");
  return next != blocks_.end() && is_inside(*next, path);
}

GraphUnit GraphUnits::unit_of(const GraphNode& of) const {
  GraphUnit unit;
  for (const ModuleCall& call : of.modules) {
    const bool block = blocks_.contains(call.path), named = is_named(call.path);
    if (named || (block && unit.key.empty()))
      unit = {.key = call.key,
              .path = call.path,
              .class_name = call.class_name,
              .is_block = unit.is_block || block,
              .is_named = named};
    if (!unit.key.empty()) continue;
    if (contains_blocks(call.path) || contains_named(call.path)) continue;
    unit = {.key = call.key, .path = call.path, .class_name = call.class_name};
  }
  return unit;
}

WideNumber GraphUnits::bytes_of(int value) const {
  constexpr double kMost = 0x1p60;
  double bytes = static_cast<double>(
      unit_dtype_size(flow_.module().values[static_cast<std::size_t>(value)].dtype));
  for (const SizeExpression& size : flow_.module().values[static_cast<std::size_t>(value)].sizes)
    bytes *= size.is_number() ? static_cast<double>(size.number())
                              : 64.0;  // arbitrary size for a symbol
  return static_cast<WideNumber>(std::min(bytes, kMost));
}

void GraphUnits::find_crossing() {
  const std::size_t count = flow_.order().size();
  crossing_.assign(count + 2, 0);
  for (std::size_t p = 0; p < count; ++p) {
    for (const int value : values_written(flow_.node(flow_.order()[p]))) {
      if (!flow_.is_tensor(value)) continue;
      std::size_t last = flow_.is_result(value) ? count : p;
      for (const int reader : flow_.readers_of(value))
        last = std::max(last, static_cast<std::size_t>(
                                  std::max(0, position_of_[static_cast<std::size_t>(reader)])));
      const WideNumber bytes = bytes_of(value);
      crossing_[p + 1] += bytes;
      crossing_[last + 1] -= bytes;
    }
  }
  for (std::size_t p = 1; p < crossing_.size(); ++p) crossing_[p] += crossing_[p - 1];
}

// Returns the position where to divide nodes between the units before and after them.
std::size_t GraphUnits::cheapest_cut(const std::vector<GraphUnit>& units, std::size_t begin,
                                     std::size_t end) const {
  if (begin == 0) return begin;
  if (end == units.size() || units[begin - 1].key == units[end].key) return end;
  std::size_t place = begin;
  WideNumber least = crossing_[begin];
  for (std::size_t at = begin + 1; at <= end; ++at) {
    const WideNumber bytes = crossing_[at];
    if (bytes <= least) std::tie(least, place) = std::pair(bytes, at);
  }
  return place;
}

std::vector<GraphUnit> GraphUnits::in_order() const {
  std::vector<GraphUnit> units;
  for (const int i : flow_.order()) units.push_back(unit_of(flow_.node(i)));
  std::set<std::string> with_parameters;
  for (std::size_t p = 0; p < flow_.order().size(); ++p) {
    const std::vector<int> read = values_read(flow_.node(flow_.order()[p]));
    if (std::any_of(read.begin(), read.end(), [&](int value) {
          const GraphInput* input = flow_.input_of(value);
          return input && input->kind == InputKind::kParameter;
        }))
      with_parameters.insert(units[p].key);
  }
  for (GraphUnit& unit : units) {
    const bool alone = unit.is_block || unit.is_named || with_parameters.contains(unit.key);
    if (!alone) unit.key.clear();
  }
  // A unit is a run of nodes that becomes one layer. A run of nodes that belong to no unit is cut
  // in two where the fewest bytes cross, and each half joins the unit beside it.
  for (std::size_t p = 0; p < units.size();) {
    std::size_t end = p;
    while (end < units.size() && units[end].key.empty()) ++end;
    if (end == p) {
      ++p;
      continue;
    }
    const std::size_t split = cheapest_cut(units, p, end);
    for (std::size_t k = p; k < end; ++k) {
      if (k < split) {
        units[k] = units[p - 1];
      } else if (end < units.size()) {
        units[k] = units[end];
      } else {
        units[k].key = "model";  // the graph has no units
      }
    }
    p = end;
  }
  return units;
}

std::string GraphUnits::home_of(const GraphNode& of) const {
  for (const ModuleCall& call : of.modules)
    if (blocks_.contains(call.path) || !contains_blocks(call.path)) return call.path;
  return {};
}

}  // namespace sluice::detail
