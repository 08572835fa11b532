#include "plan/stage_values.h"

#include <algorithm>

#include "plan/partition/shares.h"
#include "sluice/error.h"

namespace sluice {
namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void add(std::vector<std::string>& names, const std::string& name) {
  if (!has(names, name)) names.push_back(name);
}

std::string stage_text(std::size_t stage) { return "stage " + std::to_string(stage); }

// Makes `value` leave every stage from the one that has it up to `last`, and enter those between.
void relay(std::vector<StageTraffic>& stages, const std::string& value, std::size_t last) {
  std::size_t stage = last;
  while (!has(stages[stage].send, value) && !has(stages[stage].recv, value)) {
    if (stage == 0) {
      throw Error(ErrorKind::kUsage,
                  {.what = "value '" + value + "' is produced by no stage before",
                   .where = stage_text(last + 1),
                   .remedy = "produce it earlier, or name it as a model input"});
    }
    --stage;
  }
  add(stages[stage].send, value);
  for (++stage; stage <= last; ++stage) {
    add(stages[stage].recv, value);
    add(stages[stage].send, value);
  }
}

}  // namespace

std::vector<StageTraffic> live_values_between_stages(const std::vector<StageValues>& stages,
                                                     const std::vector<std::string>& model_inputs) {
  std::vector<StageTraffic> traffic(stages.size());
  std::vector<std::string> produced;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const std::string& value : stages[s].consumes) {
      if (has(model_inputs, value)) continue;
      if (s == 0) {
        throw Error(ErrorKind::kUsage,
                    {.what = "value '" + value + "' is produced by no stage before",
                     .where = stage_text(0),
                     .remedy = "name it as a model input"});
      }
      relay(traffic, value, s - 1);
      add(traffic[s].recv, value);
    }
    for (const std::string& value : stages[s].produces) {
      if (has(produced, value) || has(model_inputs, value)) {
        throw Error(ErrorKind::kUsage, {.what = "value '" + value + "' is produced twice",
                                        .where = stage_text(s),
                                        .remedy = "give the second another name"});
      }
      produced.push_back(value);
      traffic[s].send.push_back(value);
    }
  }
  for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
    for (const std::string& value : traffic[s].send) {
      if (!has(traffic[s + 1].recv, value)) {
        throw Error(ErrorKind::kUsage,
                    {.what = "value '" + value + "' is sent but no later stage reads it",
                     .where = stage_text(s),
                     .remedy = "do not produce it, or read it later"});
      }
    }
  }
  return traffic;
}

SharedWeights analyze_shared_weights_across_stages(
    int pp_size, const std::vector<std::vector<std::pair<std::string, std::string>>>& stages) {
  detail::require_count("the number of ranks", pp_size, 1);
  using Uses = std::vector<std::pair<std::string, int>>;
  std::vector<std::pair<std::string, Uses>> weights;  // in the order of the first use
  SharedWeights result;
  result.shared_on_rank.resize(static_cast<std::size_t>(pp_size));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const int rank = static_cast<int>(s % static_cast<std::size_t>(pp_size));
    std::vector<std::string> seen;  // a module counts a weight once
    for (const auto& [name, weight] : stages[s]) {
      if (has(seen, weight)) continue;
      seen.push_back(weight);
      auto found = std::find_if(weights.begin(), weights.end(),
                                [&w = weight](const auto& entry) { return entry.first == w; });
      if (found == weights.end()) {
        weights.emplace_back(weight, Uses());
        found = weights.end() - 1;
      }
      Uses& uses = found->second;
      const bool first = uses.empty();
      const bool on_rank = std::any_of(uses.begin(), uses.end(),
                                       [rank](const auto& use) { return use.second == rank; });
      if (!on_rank) uses.emplace_back(name, rank);
      result.shared_on_rank[rank][weight] = !first && !on_rank;
    }
  }
  for (const auto& [weight, uses] : weights) {
    if (uses.size() > 1) result.groups.push_back(uses);
  }
  return result;
}

}  // namespace sluice
