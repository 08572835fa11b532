#include "archive/id_limits.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <vector>

#include "archive/graph_nodes.h"

namespace sluice::detail {
namespace {

constexpr std::array kSameElements = {
    std::string_view("_to_copy"),  std::string_view("alias"),
    std::string_view("clone"),     std::string_view("contiguous"),
    std::string_view("detach"),    std::string_view("expand"),
    std::string_view("flatten"),   std::string_view("lift_fresh_copy"),
    std::string_view("permute"),   std::string_view("repeat"),
    std::string_view("reshape"),   std::string_view("squeeze"),
    std::string_view("t"),         std::string_view("transpose"),
    std::string_view("unsqueeze"), std::string_view("view"),
    std::string_view("view_as")};

bool is_integer(const GraphValue& value) {
  return value.kind == GraphValue::Kind::kTensor &&
         (value.dtype.starts_with("int") || value.dtype == "uint8");
}

class IdLimits {
 public:
  IdLimits(const GraphModule& module, int value) : module_(module), same_({value}) {}

  std::optional<IdLimit> found() {
    for (const GraphNode& node : module_.nodes) {
      const std::vector<int> read = values_read(node);
      if (read.empty() ||
          std::none_of(read.begin(), read.end(), [&](int each) { return same_.contains(each); }))
        continue;
      const std::vector<int> changed = values_changed(node);
      if (std::any_of(changed.begin(), changed.end(),
                      [&](int each) { return same_.contains(each); }))
        return std::nullopt;
      follow(node, read.front());
      require(node);
    }
    return limit_;
  }

 private:
  const GraphValue& value(int of) const { return module_.values[static_cast<std::size_t>(of)]; }
  bool is_same(const GraphArgument* argument) const {
    return argument && argument->kind == GraphArgument::Kind::kValue &&
           same_.contains(argument->value);
  }

  void follow(const GraphNode& node, int first) {
    const std::string_view name = operator_of(node);
    const bool keeps = name == "to" || std::find(kSameElements.begin(), kSameElements.end(),
                                                 name) != kSameElements.end();
    if (!keeps || !same_.contains(first)) return;
    // A cast to narrower integers would change the elements.
    const auto is_as_wide = [&](int written) {
      return value(written).dtype == "int64" || value(written).dtype == value(first).dtype;
    };
    for (const int written : values_written(node))
      if (is_integer(value(written)) && is_as_wide(written)) same_.insert(written);
  }

  // Returns 0 if not a number.
  std::int64_t size_of(const GraphArgument* argument, std::size_t dimension) const {
    if (!argument || argument->kind != GraphArgument::Kind::kValue) return 0;
    const std::vector<SizeExpression>& sizes = value(argument->value).sizes;
    return dimension < sizes.size() && sizes[dimension].is_number() ? sizes[dimension].number() : 0;
  }

  void require(const GraphNode& node) {
    const std::string_view name = operator_of(node);
    if (name == "embedding" && is_same(node.argument("indices"))) {
      narrow({.below = size_of(node.argument("weight"), 0), .ignored = {}});
    } else if ((name == "cross_entropy_loss" || name.starts_with("nll_loss")) &&
               is_same(node.argument("target"))) {
      const GraphArgument* scores = node.argument("self");
      if (!scores || scores->kind != GraphArgument::Kind::kValue) return;
      const GraphArgument* ignored = node.argument("ignore_index");
      if (ignored && ignored->kind != GraphArgument::Kind::kInt) return;
      narrow({.below = size_of(scores, value(scores->value).sizes.size() == 1 ? 0 : 1),
              .ignored = ignored ? ignored->integer : -100});
    } else if (name == "one_hot" && is_same(node.argument("self"))) {
      const GraphArgument* classes = node.argument("num_classes");
      if (classes && classes->kind == GraphArgument::Kind::kInt)
        narrow({.below = classes->integer, .ignored = {}});
    }
  }

  void narrow(const IdLimit& to) {
    if (to.below <= 0) return;
    if (!limit_) {
      limit_ = to;
      return;
    }
    if (limit_->ignored != to.ignored) limit_->ignored.reset();
    limit_->below = std::min(limit_->below, to.below);
  }

  const GraphModule& module_;
  std::set<int> same_;
  std::optional<IdLimit> limit_;
};

}  // namespace

std::optional<IdLimit> id_limit(const GraphModule& module, int value) {
  return IdLimits(module, value).found();
}

}  // namespace sluice::detail
