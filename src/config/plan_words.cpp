#include "config/plan_words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "config/key_table.h"

namespace sluice::detail {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kWords = {{
    {"memory_per_rank", "parallelism.device_memory"},
    {"auto_schedule", "parallelism.pipeline_parallel_schedule = \"auto\""},
    {"layers_per_stage", "parallelism.pipeline_parallel_layers_per_stage"},
    {"partition_convention", "parallelism.partition_convention"},
    {"num_ranks", "parallelism.pipeline_parallel_degree"},
    {"seq_len", "training.seq_len"},
    {"schedule =", "parallelism.pipeline_parallel_schedule ="},
    {"(schedule)", "(parallelism.pipeline_parallel_schedule)"},
    {"schedule \"ZBVZeroBubble\"", "pipeline_parallel_schedule = \"ZBVZeroBubble\""},
    {"no placement", "stage_to_rank = \"auto\""},
    {"own_schedule", "pipeline_parallel_schedule_csv"},
    {"data_parallel.degree", "parallelism.data_parallel_degree"},
    {"data_parallel.shards", "parallelism.data_parallel_shards"},
    {"data_parallel.zero3", "parallelism.zero3"},
    {"data_parallel.per_microbatch", "parallelism.reduce_grad_per_microbatch"},
    {"rank_order", "parallelism.rank_order"},
}};

// Of a name or a path, so that what stands beside it is no word of its own.
bool is_part_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_-./").find(c) != std::string_view::npos;
}

std::string replace_words(const std::string& text, std::string_view from, std::string_view to) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t at; (at = text.find(from, done)) != std::string::npos;) {
    const std::size_t end = at + from.size();
    const bool stands_alone = (at == 0 || !is_part_of_name(text[at - 1])) &&
                              (end == text.size() || !is_part_of_name(text[end]));
    result.append(text, done, at - done).append(stands_alone ? to : from);
    done = end;
  }
  return result.append(text, done);
}

// "run.toml:8:1, --parallelism.stage_to_rank".
std::string places_of_split(const RunConfig& config) {
  std::vector<std::string> places;
  for (const auto& [name, origin] : config.origins) {
    const std::vector<Key>& table = key_table();
    const auto key = std::find_if(table.begin(), table.end(),
                                  [&](const Key& row) { return row.full_name() == name; });
    if (origin != "default" && key != table.end() && key->decides_split) places.push_back(origin);
  }
  return places.empty() ? config.file : join(places, ", ");
}

std::string place_of(const RunConfig& config, const std::string& option) {
  if (option.empty()) return config.file;
  if (option == "partition") return places_of_split(config);
  for (const Key& key : key_table()) {
    if (key.option == option) return config.origins.at(key.full_name());
  }
  return option;  // a file of its own
}

}  // namespace

std::string with_keys(std::string text) {
  for (const auto& [option, key] : kWords) text = replace_words(text, option, key);
  return text;
}

Error with_places(const RunConfig& config, const Error& error) {
  return Error(error.kind(), {.what = with_keys(error.fact()),
                              .where = place_of(config, error.where()),
                              .remedy = with_keys(error.remedy())});
}

}  // namespace sluice::detail
