#include "job/fingerprints.h"

#include <set>

#include "config/batch_sizes.h"
#include "config/key_table.h"
#include "data/byte_tokens.h"
#include "data/data_format.h"
#include "data/data_words.h"
#include "job/file_fingerprint.h"
#include "job/model_config.h"

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
    files.insert(directory.find(name)->file->path());
  return {files.begin(), files.end()};
}

// What makes tokens of text: a word for every way that gives the same ones.
std::string tokenizer_of(const RunConfig& config) {
  TokenDataOptions options;
  options.data.tokenizer = config.data.tokenizer;
  options.model_directory = config.model.path;
  return data::refusal_of_bytes(options).empty() ? "bytes" : "none";  // rows of ids need none
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
  DataOptions opened = config.data;
  opened.files = files;
  add_text(detail::word_of(detail::words_of(DataFormat()), data::common_format(opened)), hash);
  add_text(tokenizer_of(config), hash);
  for (const detail::Key& key : detail::key_table()) {
    const std::string name = key.full_name();
    // Keys that come to be later leave the fingerprints of before as they are.
    const bool counts = key.decides_data && key.get(config) != key.default_value() &&
                        name != "data.tokenizer" &&
                        (name != "training.seed" || config.data.shuffle);
    if (counts) add_text(name + " = " + detail::to_toml(key.get(config)), hash);
  }
  fingerprint.bytes = add_files(files, hash);
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
