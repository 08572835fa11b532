#include "archive/pytree_names.h"

#include <utility>

#include "base/format.h"
#include "base/strict_json.h"

namespace sluice::detail {
namespace {

using Names = std::vector<std::string>;

// Bounds the cost of a hostile text.
constexpr std::size_t kMaxSpecBytes = 1 << 20, kMaxNameBytes = 1000;

const Json* children_of(const Json& node) {
  const Json* children = node.find("children_spec");
  return children && children->is_array() ? children : nullptr;
}

// Returns the container's keys if there is one per child, otherwise numbers.
Names keys_of(const Json& node, std::size_t count) {
  Names names;
  if (const Json* context = node.find("context"); context && context->is_string()) {
    if (const auto keys = parse_json(context->text()); keys && keys->is_array()) {
      for (const Json& key : keys->list()) {
        if (key.is_string()) names.push_back(key.text());
      }
    }
  }
  if (names.size() != count) {
    names.clear();
    for (std::size_t i = 0; i < count; ++i) names.push_back(formatted("{}", i));
  }
  return names;
}

bool add_leaves(const Json& node, const std::string& name, Names& to) {
  const Json* children = children_of(node);
  if (!children) return false;
  if (name.size() > kMaxNameBytes) return false;
  if (node.at("type").is_null()) {
    to.push_back(name);
    return children->empty();
  }
  const Names keys = keys_of(node, children->size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string joined = name.empty() ? keys[i] : name + "_" + keys[i];
    if (!add_leaves(children->list()[i], joined, to)) return false;
  }
  return true;
}

std::optional<Json> root_of(std::string_view spec) {
  if (spec.size() > kMaxSpecBytes) return std::nullopt;
  std::optional<Json> parsed = parse_json(spec);
  if (!parsed || !parsed->is_array() || parsed->size() != 2) return std::nullopt;
  return parsed->list()[1];
}

}  // namespace

std::optional<Names> output_leaf_names(std::string_view spec) {
  Names names;
  const auto root = root_of(spec);
  if (!root || !add_leaves(*root, "", names)) return std::nullopt;
  return names;
}

std::optional<Names> input_leaf_names(std::string_view spec, const Names& arguments) {
  const auto root = root_of(spec);
  const Json* both = root ? children_of(*root) : nullptr;
  if (!both || both->size() != 2) return std::nullopt;
  Names names;
  const Json& positional = both->list()[0];
  const Json* children = children_of(positional);
  if (!children || children->size() > arguments.size()) return std::nullopt;
  for (std::size_t i = 0; i < children->size(); ++i) {
    if (!add_leaves(children->list()[i], arguments[i], names)) return std::nullopt;
  }
  if (!add_leaves(both->list()[1], "", names)) return std::nullopt;
  return names;
}

}  // namespace sluice::detail
