#include "job/same_run.h"

#include <ATen/Version.h>
#include <torch/version.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/content_hash.h"
#include "base/text.h"
#include "comm/gather_messages.h"
#include "config/key_table.h"
#include "job/model_options.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Of a machine, or of one process alone. What paths lead to is compared by content.
bool may_differ(const detail::Key& key) {
  const std::string name = key.full_name();
  return key.is_path || key.section == "comm" || name == "metrics.log_level" ||
         name == "training.threads_per_rank";  // compared as resolved
}

// What a user has set explains what follows from it.
std::vector<std::pair<std::string, std::string>> settings_first(
    const std::map<std::string, std::string>& identity) {
  std::vector<std::pair<std::string, std::string>> ordered(identity.begin(), identity.end());
  std::stable_partition(ordered.begin(), ordered.end(), [](const auto& entry) {
    return entry.first.find('.') != std::string::npos;
  });
  return ordered;
}

std::string hash_of(const Program& program) {
  std::string text;
  for (const std::vector<Action>& row : program.ranks) {
    for (const Action& action : row) text += to_text(action) + ",";
    text += "\n";
  }
  for (const int rank : program.stage_map.ranks()) text += std::to_string(rank) + " ";
  return content_hash(text);
}

// Processes may read costs or memory of their own: the same order of instructions over other cuts
// would train a model without some of its layers.
std::string hash_of(const Partition& partition) {
  std::string text;
  for (const StageContent& stage : partition.stages) {
    text += std::to_string(stage.rank) + ":";
    for (const int layer : stage.layers) text += " " + std::to_string(layer);
    text += "\n";
  }
  return content_hash(text);
}

}  // namespace

std::map<std::string, std::string> identity_of(const RunConfig& config, const Plan& plan,
                                               const RunFingerprints& made_of,
                                               int threads_per_rank) {
  std::map<std::string, std::string> identity = {
      {"version of sluice", SLUICE_VERSION},
      {"version of torch", TORCH_VERSION},
      {"ATEN_CPU_CAPABILITY", at::get_cpu_capability()},
      {"order of instructions", hash_of(plan.program)},
      {"split into stages", hash_of(plan.partition)},
      {"kernels", kernels_text(config, plan.model)},
      {"training.threads_per_rank", std::to_string(threads_per_rank)}};
  for (const auto& [name, fingerprint] : made_of.of) {
    if (name != "configuration") identity[name] = fingerprint.hash;
  }
  if (made_of.validation) identity["validation"] = made_of.validation->hash;
  identity["--profile"] = made_of.is_traced ? "given" : "not given";
  for (const detail::Key& key : detail::key_table()) {
    if (!may_differ(key)) identity[key.full_name()] = detail::to_toml(key.get(config));
  }
  return identity;
}

void require_same_run(const std::map<std::string, std::string>& identity, const Group& world) {
  std::vector<std::string> names, values;
  for (const auto& [name, value] : identity) {
    names.push_back(name);
    values.push_back(value);
  }
  std::vector<std::map<std::string, std::string>> of_ranks;
  for (WireReader& message :
       gather_messages(world, WireWriter().add(names).add(values), "what the run is")) {
    const auto their_names = message.take<std::vector<std::string>>();
    const auto their_values = message.take<std::vector<std::string>>();
    message.finish();
    std::map<std::string, std::string>& of_rank = of_ranks.emplace_back();
    for (std::size_t i = 0; i < their_names.size() && i < their_values.size(); ++i)
      of_rank[their_names[i]] = their_values[i];
  }
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank) {
    for (const auto& [name, value] : settings_first(of_ranks[0])) {
      const auto theirs = of_ranks[rank].find(name);
      if (theirs != of_ranks[rank].end() && theirs->second == value) continue;
      throw Error(
          ErrorKind::kUsage,
          {.what = "rank " + std::to_string(rank) + " was started for another run: its " + name +
                   " is " + (theirs == of_ranks[rank].end() ? "missing" : theirs->second) +
                   ", that of rank 0 is " + value,
           .where = "rank " + std::to_string(rank),
           .remedy = "start all processes with the same program, files and settings"});
    }
  }
}

}  // namespace sluice
