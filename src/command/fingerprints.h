// Fingerprints of a run's inputs: the original model, the data and the settings that change
// numbers. Checkpoints store them, and the processes of a run compare them. File names, paths and
// times never count, and neither do layout, folders, number of steps and metrics. resume.h decides
// what a difference means.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "command/weights.h"
#include "config/run_config.h"
#include "sluice/checkpoint.h"
#include "sluice/model_spec.h"
#include "sluice/parts/group.h"
#include "sluice/plan.h"

namespace sluice {

// The part of config.json that affects the model's numbers. Leaves out names, versions, the file's
// dtype and generation settings, which differ between copies of a model. Returns an empty object
// for invalid text.
Json model_of(const std::string& config_text);

// Hashes model_of(config.json) and the weight files in the order of their names. Without files, it
// hashes whether the weights are random.
Fingerprint model_fingerprint(const ModelSpec& spec, const OpenedWeights& weights);

// Hashes `files` in reading order, and all settings that decide which sequence is number n: format,
// data keys that are not default, seq_len, tokenizer, and the seed if rows are shuffled. `rows`
// comes from set_row_needs(). The tokenizer and seq_len do not count for rows without tokens.
// Arrays that fields name count by size and content.
Fingerprint data_fingerprint(const RunConfig& config, const std::vector<std::string>& files,
                             const TokenDataOptions& rows = {});

// The only key that changes numbers just if the learning rate decays.
inline constexpr const char* kSteps = "training.steps";
std::map<std::string, std::string> settings(const RunConfig& config);
Fingerprint settings_fingerprint(const std::map<std::string, std::string>& settings);

struct RunFingerprints {
  std::map<std::string, Fingerprint>
      of;  // by name in the manifest: "configuration", "model", "data", "adapter"
  std::map<std::string, std::string> settings;
  // model_of(config.json), to report differences
  std::string model_config;
  // not stored in checkpoints
  std::optional<Fingerprint> validation;
  bool is_traced = false;
};
// Throws Error(kInput) for an unreadable file.
RunFingerprints fingerprints_of(const RunConfig& config, const ModelSpec& spec,
                                const OpenedWeights& weights);

// Everything that must be equal in all processes, by name: versions, CPU kernels, instructions of
// the plan, contents of model and data, and settings. Paths, the log level and timeouts may differ.
// `threads_per_rank` is the number resolved on this machine.
std::map<std::string, std::string> identity_of(const RunConfig& config, const Plan& plan,
                                               const RunFingerprints& made_of,
                                               int threads_per_rank);

// Collective over all ranks. Throws the same Error(kUsage) on every rank, naming the first rank
// that differs from rank 0 and the difference.
void require_same_run(const std::map<std::string, std::string>& identity, const Group& world);

}  // namespace sluice
