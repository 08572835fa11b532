// What a run is made of, as its checkpoints say it: the model that it began from, the data, the
// settings that decide numbers.
//
// Owns: what counts, and what does not: names, paths and times of files never do, nor layout,
// folders, number of steps and metrics. Does not own: what a difference means (resume.h).
// Thread-safety: pure functions of the configuration and the files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job/run_inputs.h"
#include "sluice/checkpoint.h"
#include "sluice/model_spec.h"
#include "sluice/run_config.h"

namespace sluice {

// config.json (model_config.h) and the files of the weights in the order of their names; without
// any, that they are drawn.
Fingerprint model_fingerprint(const ModelSpec& spec, const OpenedWeights& weights);

// files: as they are read, in their order. With what decides which sequence is number n: the
// format, the keys of data that are not their default, seq_len, the tokenizer that makes tokens of
// text, the seed where the order hangs on it.
Fingerprint data_fingerprint(const RunConfig& config, const std::vector<std::string>& files);

// "section.key" -> its value as TOML, of every key that decides numbers.
std::map<std::string, std::string> settings(const RunConfig& config);
// The same as a fingerprint.
Fingerprint settings_fingerprint(const std::map<std::string, std::string>& settings);

struct RunFingerprints {
  // As a manifest has them.
  std::map<std::string, Fingerprint> of;  // "configuration", "model", "data", "adapter"
  std::map<std::string, std::string> settings;
  // What counts of config.json, to say what differs.
  std::string model_config;
  // Beside what checkpoints say: validation.files, and whether steps are traced.
  std::optional<Fingerprint> validation;
  bool is_traced = false;
};
// Throws Error(kInput) for a file that cannot be read.
RunFingerprints fingerprints_of(const RunConfig& config, const ModelSpec& spec,
                                const OpenedWeights& weights);

}  // namespace sluice
