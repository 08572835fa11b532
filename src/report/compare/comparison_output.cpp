#include "report/compare/comparison_output.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "base/format.h"
#include "base/text.h"

namespace sluice {
namespace {

std::string three_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string what_is_compared(const RunComparison& comparison) {
  if (comparison.runs.front().tensors.empty()) return "logged numbers";
  return comparison.kind == TensorKind::kWeights ? "weights" : "gradients";
}

std::string distance_text(const Difference& difference) {
  if (!std::isfinite(difference.distance)) return "no order of additions causes this";
  const std::string ulps =
      std::isfinite(difference.ulps)
          ? formatted("; up to {} units in the last place", three_digits(difference.ulps))
          : "";
  if (difference.is_share) {
    return formatted(
        "{} % of the elements differ by more than a rounding error, rounding explains up to {} %{}",
        three_digits(100 * difference.distance), three_digits(100 * difference.bound), ulps);
  }
  return formatted("relative distance {}, rounding explains up to {}{}",
                   three_digits(difference.distance), three_digits(difference.bound), ulps);
}

std::string difference_text(const Difference& difference) {
  return formatted("step {}, {}: {}; {}", difference.step, difference.name, difference.evidence,
                   distance_text(difference));
}

std::string groups_text(const RunComparison& comparison) {
  std::vector<std::string> texts;
  for (const std::vector<std::string>& names : comparison.groups)
    texts.push_back("{" + join(names, ", ") + "}");
  return join(texts, " ");
}

std::string axes_text(const RunComparison& comparison) {
  if (comparison.axes.empty())
    return "no setting that all runs have, in run.json or their labels, separates the groups";
  std::vector<std::string> parts;
  for (const std::string& axis : comparison.axes) {
    std::vector<std::string> values;
    for (const ComparedRun& run : comparison.runs) {
      const auto value = run.axes.find(axis);
      values.push_back(
          formatted("{}: {}", run.name, value == run.axes.end() ? "-" : value->second));
    }
    parts.push_back(axis.find(" with ") == std::string::npos
                        ? formatted("{} ({})", axis, join(values, ", "))
                        : axis);
  }
  constexpr std::size_t kMostAxes = 8;
  if (parts.size() > kMostAxes) {
    const std::size_t more = parts.size() - kMostAxes;
    parts.resize(kMostAxes);
    parts.push_back(formatted("and {} more", more));
  }
  return join(parts, "; ");
}

std::int64_t least_compared(const RunComparison& comparison) {
  std::int64_t least = INT64_MAX;
  for (const PairComparison& pair : comparison.pairs)
    least = std::min(least, static_cast<std::int64_t>(pair.compared));
  return least;
}

std::string verdict_text(const RunComparison& comparison, const PairComparison* pair) {
  const std::string in = std::string(comparison.arithmetic.dtype->word);
  switch (comparison.verdict) {
    case RunVerdict::kEqual:
      return formatted("equal: every bit of the {} {} in common", least_compared(comparison),
                       what_is_compared(comparison));
    case RunVerdict::kRounding:
      return formatted(
          "rounding: another order of additions in {} explains every difference{}", in,
          what_is_compared(comparison) == "weights"
              ? "; AdamW hides a wrong factor of the gradients, so compare gradients or norms, too"
              : "");
    case RunVerdict::kBug:
      break;
  }
  return formatted(
      "bug: no order of additions in {} explains {} of {} differences between {} and {}{}", in,
      pair->beyond, pair->different, pair->a, pair->b,
      comparison.arithmetic_origin == "assumed"
          ? "; give --dtype if the runs compute in a narrower type"
          : "");
}

Json difference_json(const std::optional<Difference>& difference) {
  if (!difference) return {};
  const auto finite = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  return {{"step", difference->step},
          {"name", difference->name},
          {"evidence", difference->evidence},
          {"distance", finite(difference->distance)},
          {"bound", finite(difference->bound)},
          {"of", difference->is_share ? "share of elements" : "relative distance"},
          {"ulps", finite(difference->ulps)},
          {"explained", !difference->is_beyond}};
}

}  // namespace

std::string_view to_text(RunVerdict verdict) {
  switch (verdict) {
    case RunVerdict::kEqual:
      return "equal";
    case RunVerdict::kRounding:
      return "rounding";
    case RunVerdict::kBug:
      return "bug";
  }
  return "";
}

std::string run_comparison_text(const RunComparison& comparison) {
  const Arithmetic& arithmetic = comparison.arithmetic;
  std::string text = formatted("{} of {}; arithmetic {} ({}), {} terms in the longest sum, {}\n",
                               what_is_compared(comparison),
                               counted(static_cast<std::int64_t>(comparison.runs.size()), "run"),
                               arithmetic.dtype->word, comparison.arithmetic_origin,
                               arithmetic.terms, counted(arithmetic.layers, "layer"));
  for (const ComparedRun& run : comparison.runs) text += "  " + run.label() + "\n";
  const PairComparison* const pair = comparison.decisive();
  if (pair) {
    text += formatted("first difference of {} and {}:\n  {}\n", pair->a, pair->b,
                      difference_text(*pair->first));
    if (pair->first_beyond) {
      text += formatted("first difference that rounding does not explain:\n  {}\n",
                        difference_text(*pair->first_beyond));
    } else {
      text +=
          formatted("difference nearest to its bound:\n  {}\n", difference_text(*pair->nearest));
    }
    text += formatted("groups: {}\naxis: {}\n", groups_text(comparison), axes_text(comparison));
  }
  return text + formatted("verdict: {}\n", verdict_text(comparison, pair));
}

Json run_comparison_json(const RunComparison& comparison) {
  Json runs = Json::array(), pairs = Json::array();
  for (const ComparedRun& run : comparison.runs)
    runs.push_back({{"name", run.name}, {"path", run.path}, {"axes", run.axes}});
  for (const PairComparison& pair : comparison.pairs) {
    pairs.push_back({{"a", pair.a},
                     {"b", pair.b},
                     {"verdict", to_text(pair.verdict)},
                     {"compared", pair.compared},
                     {"different", pair.different},
                     {"unexplained", pair.beyond},
                     {"first_difference", difference_json(pair.first)},
                     {"first_unexplained", difference_json(pair.first_beyond)},
                     {"nearest_to_bound", difference_json(pair.nearest)}});
  }
  const Arithmetic& arithmetic = comparison.arithmetic;
  return {{"verdict", to_text(comparison.verdict)},
          {"compared", what_is_compared(comparison)},
          {"groups", comparison.groups},
          {"axes", comparison.axes},
          {"arithmetic",
           {{"dtype", arithmetic.dtype->word},
            {"origin", comparison.arithmetic_origin},
            {"unit_roundoff", arithmetic.dtype->unit_roundoff()},
            {"terms", arithmetic.terms},
            {"layers", arithmetic.layers},
            {"gradient_bound", arithmetic.gradient_bound()},
            {"loss_bound", arithmetic.loss_bound()}}},
          {"runs", std::move(runs)},
          {"pairs", std::move(pairs)}};
}

}  // namespace sluice
