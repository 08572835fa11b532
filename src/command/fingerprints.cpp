#include "command/fingerprints.h"

#include <ATen/Version.h>
#include <torch/version.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/content_hash.h"
#include "base/format.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "checkpoint/file_fingerprint.h"
#include "comm/gather_messages.h"
#include "command/inputs.h"
#include "config/batch_sizes.h"
#include "config/epochs.h"
#include "config/key_table.h"
#include "data/array_file.h"
#include "data/data_format.h"
#include "data/data_words.h"
#include "data/jsonl_rows.h"
#include "data/text_tokens.h"
#include "io/hf_shards.h"
#include "kind/adapter_files.h"
#include "kind/model_kind.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Adds the length too. Without it, {"ab", "c"} and {"a", "bc"} would have the same hash.
void add_text(const std::string& text, ContentHash& hash) {
  const std::string counted = formatted("{}:{}", text.size(), text);
  hash.add(counted.data(), counted.size());
}

std::vector<std::string> files_of(const HfDirectory& directory) {
  std::set<std::string> files;
  for (const std::string& name : directory.names())
    files.insert(directory.shards().find(name)->file->path());
  return {files.begin(), files.end()};
}

std::string word_of(DataFormat format) {
  return detail::word_of(detail::words_of(DataFormat()), format);
}

// Returns equal texts for tokenizers that produce the same tokens.
std::string tokenizer_of(const RunConfig& config, const std::vector<std::string>& files) {
  TokenDataOptions options;
  options.data.tokenizer = config.data.tokenizer;
  options.model_directory = model_directory(config);
  const data::TextTokens tokens(options);
  const auto is_ids = [&](const std::string& file) {
    const DataFormat format = data::format_of(file, config.data.format, "data.files");
    return format == DataFormat::kJsonl ? data::first_row_has_ids(file, config.data.fields)
                                        : format != DataFormat::kText;
  };
  if (!tokens.is_bytes() && std::all_of(files.begin(), files.end(), is_ids)) return "none";
  return tokens.identity();
}

// Paths may differ between processes, because the files are compared by content.
bool may_differ(const detail::Key& key) {
  const std::string name = key.full_name();
  return key.is_path || key.section == "comm" || name == "metrics.log_level" ||
         // compared separately, after "auto" is resolved
         name == "training.threads_per_rank";
}

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
  for (const int rank : program.stage_map.ranks()) text += formatted("{} ", rank);
  return content_hash(text);
}

// Processes that cut the model differently, after measuring different layer times, would skip
// layers.
std::string hash_of(const Partition& partition) {
  std::string text;
  for (const StageContent& stage : partition.stages) {
    text += formatted("{}:", stage.rank);
    for (const int layer : stage.layers) text += formatted(" {}", layer);
    text += "\n";
  }
  return content_hash(text);
}

}  // namespace

Json model_of(const std::string& config_text) {
  Json config = parse_json(config_text).value_or(Json::object());
  if (!config.is_object()) return Json::object();
  for (const char* key : {"dtype", "torch_dtype", "transformers_version", "_name_or_path",
                          "_commit_hash", "architectures", "auto_map", "use_cache"})
    config.erase(key);
  return config;
}

Fingerprint model_fingerprint(const ModelSpec& spec, const OpenedWeights& weights) {
  ContentHash hash;
  Fingerprint fingerprint;
  add_text(model_of(spec.config_text).dump(), hash);
  if (weights.directory) {
    fingerprint.bytes = add_files(files_of(*weights.directory), hash);
  } else if (!weights.in_archive) {
    add_text("drawn", hash);
  }
  if (const std::vector<std::string> files = spec.source->files(); !files.empty())
    fingerprint.bytes += add_files(files, hash);
  fingerprint.hash = hash.digits();
  return fingerprint;
}

Fingerprint adapter_fingerprint(const RunConfig& config, const ModelSpec& spec) {
  ContentHash hash;
  Fingerprint fingerprint;
  add_text(adapter_config(read_adapter(config.model.adapter, spec), spec, ""), hash);
  fingerprint.bytes = add_files({config.model.adapter + "/" + kAdapterFile}, hash);
  fingerprint.hash = hash.digits();
  return fingerprint;
}

std::uint64_t add_arrays(const RunConfig& config, const std::vector<std::string>& files,
                         const TokenDataOptions& rows, ContentHash& hash) {
  std::vector<std::string> arrays;
  if (rows.fields.empty()) return 0;
  for (const std::string& file : files) {
    if (data::format_of(file, config.data.format, "data.files") != DataFormat::kJsonl) continue;
    for (std::string& array : data::array_files_of(file, rows.fields))
      arrays.push_back(std::move(array));
  }
  return add_many_files(arrays, hash);
}

Fingerprint data_fingerprint(const RunConfig& config, const std::vector<std::string>& files,
                             const TokenDataOptions& rows) {
  ContentHash hash;
  Fingerprint fingerprint;
  std::vector<std::string> read;
  for (const std::string& file : files) {
    const DataFormat format = data::format_of(file, config.data.format, "data.files");
    for (std::string& part : data::files_read_of(file, format)) read.push_back(std::move(part));
  }
  if (config.data.weights.empty()) {
    add_text(word_of(data::common_format(files, config.data.format)), hash);
  } else {
    for (const std::vector<std::string>& entry : expand_data_entries(config)) {
      for (const std::string& file : entry)
        add_text(word_of(data::format_of(file, config.data.format, "data.files")), hash);
      add_text("entry", hash);
    }
  }
  add_text(rows.tokens ? tokenizer_of(config, files) : "fields", hash);
  const bool uses_seed = config.data.shuffle || config.validation.split > 0;
  for (const detail::Key& key : detail::key_table()) {
    const std::string name = key.full_name();
    // Skip keys with default values, so that adding a key does not change old fingerprints.
    const bool counts = key.affects_data && key.get(config) != key.default_value() &&
                        name != "data.tokenizer" && (rows.tokens || name != "training.seq_len") &&
                        (name != "training.seed" || uses_seed);
    if (counts) add_text(formatted("{} = {}", name, detail::to_toml(key.get(config))), hash);
  }
  fingerprint.bytes = add_files(read, hash) + add_arrays(config, files, rows, hash);
  fingerprint.hash = hash.digits();
  return fingerprint;
}

std::map<std::string, std::string> settings(const RunConfig& given) {
  const RunConfig config = as_one_replica(given);
  std::map<std::string, std::string> values;
  for (const detail::Key& key : detail::key_table()) {
    const bool is_used = key.full_name() == kSteps && depends_on_steps(config.lr_scheduler);
    if (key.affects_numbers || is_used) values[key.full_name()] = detail::to_toml(key.get(config));
  }
  return values;
}

Fingerprint settings_fingerprint(const std::map<std::string, std::string>& settings) {
  std::string text;
  for (const auto& [key, value] : settings) text += formatted("{} = {}\n", key, value);
  return {text.size(), content_hash(text)};
}

void set_settings(const RunConfig& config, const ModelSpec& spec, RunFingerprints& made_of) {
  made_of.settings = settings(config);
  made_of.settings["kernels"] = kernels_text(config, spec);
  made_of.of["configuration"] = settings_fingerprint(made_of.settings);
}

RunFingerprints fingerprints_of(const RunConfig& config, const ModelSpec& spec,
                                const OpenedWeights& weights) {
  RunFingerprints all;
  set_settings(config, spec, all);
  all.model_config = model_of(spec.config_text).dump();
  all.of["model"] = model_fingerprint(spec, weights);
  if (!config.model.adapter.empty()) all.of["adapter"] = adapter_fingerprint(config, spec);
  TokenDataOptions rows;
  set_row_needs(spec.source->row_needs(), rows);
  all.of["data"] = data_fingerprint(config, expand_data_files(config), rows);
  if (!config.validation.files.empty()) {
    ContentHash hash;
    const std::vector<std::string> files = expand_validation_files(config);
    const std::uint64_t bytes = add_files(files, hash) + add_arrays(config, files, rows, hash);
    all.validation = {bytes, hash.digits()};
  }
  return all;
}

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
  for (Unpacker& message :
       gather_messages(world, Packer().add(names).add(values), "what the run is")) {
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
          {.what = formatted(
               "rank {} was started for another run: its {} is {}, but rank 0's is {}", rank, name,
               theirs == of_ranks[rank].end() ? "missing" : theirs->second, value),
           .where = formatted("rank {}", rank),
           .remedy = "start all processes with the same program, files and settings"});
    }
  }
}

}  // namespace sluice
