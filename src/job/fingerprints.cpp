#include "job/fingerprints.h"

#include <algorithm>
#include <set>
#include <utility>

#include "config/batch_sizes.h"
#include "config/key_table.h"
#include "data/data_format.h"
#include "data/data_words.h"
#include "data/jsonl_rows.h"
#include "data/text_tokens.h"
#include "io/hf_shards.h"
#include "job/file_fingerprint.h"
#include "job/model_config.h"
#include "job/model_options.h"
#include "plan/lora/adapter_files.h"

namespace sluice {
namespace {

// No two texts in a row are others in a row.
void add_text(const std::string& text, ContentHash& hash) {
  const std::string counted = std::to_string(text.size()) + ":" + text;
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

// What makes tokens of text: the same of all that make the same of every text. Ids need none.
std::string tokenizer_of(const RunConfig& config, const std::vector<std::string>& files) {
  TokenDataOptions options;
  options.data.tokenizer = config.data.tokenizer;
  options.model_directory = model_directory(config);
  const data::TextTokens tokens(options);
  const auto is_ids = [&](const std::string& file) {
    const DataFormat format = data::format_of(file, config.data.format, "data.files");
    return format == DataFormat::kJsonl ? data::first_row_has_ids(file)
                                        : format != DataFormat::kText;
  };
  if (!tokens.is_bytes() && std::all_of(files.begin(), files.end(), is_ids)) return "none";
  return tokens.identity();
}

}  // namespace

Fingerprint model_fingerprint(const ModelSpec& spec, const OpenedWeights& weights) {
  ContentHash hash;
  Fingerprint fingerprint;
  add_text(model_of(spec.config_text).dump(), hash);
  if (weights.directory) {
    fingerprint.bytes = add_files(files_of(*weights.directory), hash);
  } else {
    add_text("drawn", hash);
  }
  fingerprint.hash = hash.digits();
  return fingerprint;
}

// Of the adapter that the run began from: what it is, and its tensors.
Fingerprint adapter_fingerprint(const RunConfig& config, const ModelSpec& spec) {
  ContentHash hash;
  Fingerprint fingerprint;
  add_text(adapter_config(read_adapter(config.model.adapter, spec), spec, ""), hash);
  fingerprint.bytes = add_files({config.model.adapter + "/" + kAdapterFile}, hash);
  fingerprint.hash = hash.digits();
  return fingerprint;
}

Fingerprint data_fingerprint(const RunConfig& config, const std::vector<std::string>& files) {
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
  add_text(tokenizer_of(config, files), hash);
  for (const detail::Key& key : detail::key_table()) {
    const std::string name = key.full_name();
    // Keys that come to be later leave the fingerprints of before as they are.
    const bool counts = key.decides_data && key.get(config) != key.default_value() &&
                        name != "data.tokenizer" &&
                        (name != "training.seed" || config.data.shuffle);
    if (counts) add_text(name + " = " + detail::to_toml(key.get(config)), hash);
  }
  fingerprint.bytes = add_files(read, hash);
  fingerprint.hash = hash.digits();
  return fingerprint;
}

std::map<std::string, std::string> settings(const RunConfig& given) {
  const RunConfig config = as_one_replica(given);  // another number of them is no change
  std::map<std::string, std::string> values;
  for (const detail::Key& key : detail::key_table()) {
    if (key.decides_numbers) values[key.full_name()] = detail::to_toml(key.get(config));
  }
  return values;
}

Fingerprint settings_fingerprint(const std::map<std::string, std::string>& settings) {
  std::string text;
  for (const auto& [key, value] : settings) text += key + " = " + value + "\n";
  return {text.size(), content_hash(text)};
}

RunFingerprints fingerprints_of(const RunConfig& config, const ModelSpec& spec,
                                const OpenedWeights& weights) {
  RunFingerprints all;
  all.settings = settings(config);
  all.settings["kernels"] = kernels_text(config, spec);
  all.model_config = model_of(spec.config_text).dump();
  all.of["configuration"] = settings_fingerprint(all.settings);
  all.of["model"] = model_fingerprint(spec, weights);
  if (!config.model.adapter.empty()) all.of["adapter"] = adapter_fingerprint(config, spec);
  all.of["data"] = data_fingerprint(config, expand_data_files(config));
  if (!config.validation.files.empty()) {
    ContentHash hash;
    const std::uint64_t bytes = add_files(expand_validation_files(config), hash);
    all.validation = {bytes, hash.digits()};
  }
  return all;
}

}  // namespace sluice
