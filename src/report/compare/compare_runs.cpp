#include "report/compare/compare_runs.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using RunIndices = std::vector<std::size_t>;

bool names_gradients(const std::string& text) {
  return to_lower(text).find("grad") != std::string::npos;
}

TensorKind kind_of(const std::vector<ComparedRun>& runs) {
  for (const ComparedRun& run : runs) {
    if (names_gradients(base_name(run.path))) return TensorKind::kGradients;
    for (const auto& [step, table] : run.tensors)
      for (const auto& [name, tensor] : table)
        if (names_gradients(name) || names_gradients(base_name(tensor.file)))
          return TensorKind::kGradients;
  }
  return TensorKind::kWeights;
}

// Returns the first number of "model.layers.12.mlp.weight", or -1.
std::int64_t layer_of_name(const std::string& name) {
  for (const std::string& part : split(name, '.')) {
    if (!part.empty() && part.size() < 6 &&
        std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c); }))
      return std::stoll(part);
  }
  return -1;
}

// Returns what the files show of the runs' sizes: layers in names, tokens, the largest dimension.
void measure_sizes(const std::vector<ComparedRun>& runs, std::int64_t& layers,
                   std::int64_t& terms) {
  std::set<std::int64_t> numbers;
  for (const ComparedRun& run : runs) {
    if (const auto tokens = run.scalars.curves.find("tokens"); tokens != run.scalars.curves.end())
      for (const auto& [step, count] : tokens->second)
        if (count >= 1 && count < 1e15) terms = std::max(terms, static_cast<std::int64_t>(count));
    if (run.layers) layers = std::max(layers, *run.layers);
    if (run.tensors.empty()) continue;
    for (const auto& [name, tensor] : run.tensors.begin()->second) {
      if (const std::int64_t number = layer_of_name(name); number >= 0) numbers.insert(number);
      for (const std::int64_t size : tensor.shape) terms = std::max(terms, size);
    }
  }
  layers = std::max(layers, static_cast<std::int64_t>(numbers.size()));
}

void choose_arithmetic(const CompareOptions& options, RunComparison& comparison) {
  Arithmetic& arithmetic = comparison.arithmetic;
  comparison.arithmetic_origin = "assumed";
  bool is_known = false;
  for (const ComparedRun& run : comparison.runs) {
    if (!run.arithmetic) continue;
    const bool is_coarser = run.arithmetic->mantissa_bits < arithmetic.dtype->mantissa_bits;
    if (!is_known || is_coarser) arithmetic.dtype = run.arithmetic;
    is_known = true;
    comparison.arithmetic_origin = "of run.json";
  }
  if (options.dtype) {
    arithmetic.dtype = options.dtype;
    comparison.arithmetic_origin = "given";
  }
  std::int64_t layers = 0, terms = 0;
  measure_sizes(comparison.runs, layers, terms);
  if (layers > 0) arithmetic.layers = layers;
  // Tensors show no number of tokens, so their largest dimension is only a lower limit.
  const bool has_tokens = comparison.runs.front().tensors.empty() && terms > 0;
  arithmetic.terms = has_tokens ? terms : std::max(arithmetic.terms, terms);
  if (options.layers) arithmetic.layers = *options.layers;
  if (options.terms) arithmetic.terms = *options.terms;
}

std::size_t root_of_group(RunIndices& parents, std::size_t run) {
  while (parents[run] != run) run = parents[run];
  return run;
}

// Joins runs whose pair satisfies `agrees`.
template <typename Agrees>
RunIndices groups_by(const RunComparison& comparison, const std::vector<std::pair<int, int>>& ends,
                     const Agrees& agrees) {
  RunIndices parents(comparison.runs.size());
  for (std::size_t i = 0; i < parents.size(); ++i) parents[i] = i;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!agrees(comparison.pairs[i].verdict)) continue;
    const std::size_t a = root_of_group(parents, static_cast<std::size_t>(ends[i].first));
    const std::size_t b = root_of_group(parents, static_cast<std::size_t>(ends[i].second));
    parents[std::max(a, b)] = std::min(a, b);
  }
  for (std::size_t i = 0; i < parents.size(); ++i) parents[i] = root_of_group(parents, i);
  return parents;
}

std::string axis_value(const ComparedRun& run, const std::string& axis) {
  const auto value = run.axes.find(axis);
  return value == run.axes.end() ? std::string() : value->second;
}

// True if runs with equal values of all `axes` are in one group.
bool decide_group(const std::vector<ComparedRun>& runs, const RunIndices& groups,
                  const std::vector<std::string>& axes) {
  std::map<std::vector<std::string>, std::size_t> group_of;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<std::string> values;
    for (const std::string& axis : axes) values.push_back(axis_value(runs[i], axis));
    if (group_of.emplace(values, groups[i]).first->second != groups[i]) return false;
  }
  return true;
}

// Returns every axis that alone decides the group, those with the fewest values first, or else the
// first pair of axes that does.
std::vector<std::string> separating_axes(const std::vector<ComparedRun>& runs,
                                         const RunIndices& groups) {
  std::map<std::string, std::set<std::string>> values;
  for (const ComparedRun& run : runs)
    for (const auto& [axis, value] : run.axes) values[axis];
  for (auto& [axis, of] : values)
    for (const ComparedRun& run : runs) of.insert(axis_value(run, axis));
  std::erase_if(values, [&runs](const auto& each) {
    return each.second.size() < 2 || std::any_of(runs.begin(), runs.end(), [&](const auto& run) {
             return !run.axes.contains(each.first);
           });
  });
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const auto& [axis, of] : values)
    if (decide_group(runs, groups, {axis})) found.emplace_back(of.size(), axis);
  std::sort(found.begin(), found.end());
  std::vector<std::string> axes;
  for (auto& [count, axis] : found) axes.push_back(std::move(axis));
  if (!axes.empty()) return axes;
  for (auto x = values.begin(); x != values.end(); ++x)
    for (auto y = std::next(x); y != values.end(); ++y)
      if (decide_group(runs, groups, {x->first, y->first})) return {x->first + " with " + y->first};
  return {};
}

void require_common_tensor(const ComparedRun& run, const TensorSteps& start,
                           const std::string& path) {
  const TensorTable& weights = start.rbegin()->second;
  const bool is_common =
      !run.tensors.empty() &&
      std::any_of(run.tensors.begin()->second.begin(), run.tensors.begin()->second.end(),
                  [&](const auto& each) { return weights.contains(each.first); });
  if (is_common) return;
  throw Error(ErrorKind::kInput,
              {.what = "the weights before training have no tensor of " + run.path,
               .where = "--start " + path,
               .remedy = "compare weights, and name those from which the runs began"});
}

}  // namespace

const PairComparison* RunComparison::decisive() const {
  const PairComparison* best = nullptr;
  for (const PairComparison& pair : pairs) {
    if (pair.verdict != verdict || verdict == RunVerdict::kEqual) continue;
    const auto step = [&](const PairComparison& of) {
      return verdict == RunVerdict::kBug ? of.first_beyond->step : of.first->step;
    };
    if (!best || step(pair) < step(*best)) best = &pair;
  }
  return best;
}

RunComparison compare_runs(std::vector<ComparedRun> runs, const CompareOptions& options) {
  RunComparison comparison{.runs = std::move(runs)};
  comparison.kind = options.kind.value_or(kind_of(comparison.runs));
  choose_arithmetic(options, comparison);
  TensorFiles files;
  const TensorSteps start = options.start.empty() ? TensorSteps() : find_tensors(options.start);
  if (start.empty() && !options.start.empty()) {
    throw Error(ErrorKind::kInput, {.what = "there are no tensors",
                                    .where = "--start " + options.start,
                                    .remedy = "name a safetensors file or a folder with one"});
  }
  if (!start.empty()) require_common_tensor(comparison.runs.front(), start, options.start);
  const TensorQuestion question = {comparison.kind,
                                   start.empty() ? nullptr : &start.rbegin()->second};
  // A run is compared with one run of each set of equal runs.
  std::vector<std::size_t> representatives;
  std::vector<std::pair<int, int>> ends;
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    bool is_new = true;
    for (const std::size_t other : representatives) {
      comparison.pairs.push_back(compare_pair(comparison.runs[other], comparison.runs[i],
                                              comparison.arithmetic, question, files));
      ends.emplace_back(static_cast<int>(other), static_cast<int>(i));
      const RunVerdict verdict = comparison.pairs.back().verdict;
      comparison.verdict = std::max(comparison.verdict, verdict);
      is_new = verdict != RunVerdict::kEqual;
      if (!is_new) break;
    }
    if (is_new) representatives.push_back(i);
  }
  const RunVerdict most =
      comparison.verdict == RunVerdict::kBug ? RunVerdict::kRounding : RunVerdict::kEqual;
  const RunIndices groups =
      groups_by(comparison, ends, [&](RunVerdict verdict) { return verdict <= most; });
  std::map<std::size_t, std::vector<std::string>> members;
  for (std::size_t i = 0; i < groups.size(); ++i)
    members[groups[i]].push_back(comparison.runs[i].name);
  for (auto& [root, names] : members) comparison.groups.push_back(std::move(names));
  if (comparison.groups.size() > 1) comparison.axes = separating_axes(comparison.runs, groups);
  return comparison;
}

}  // namespace sluice
