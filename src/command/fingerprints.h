// Fingerprints (hashes) of the model, the data and the settings that affect results. Checkpoints
// store them, and processes compare them. File names and times, layout, folders, steps and metrics
// never affect them.
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

// Returns the part of config.json that affects results, without what differs between copies of a
// model (names, versions, dtype, generation settings). Returns an empty object for invalid text.
Json model_of(const std::string& config_text);

Fingerprint model_fingerprint(const ModelSpec& spec, const OpenedWeights& weights);

// Hashes the data files in reading order, and all settings that affect the order of sequences.
// Arrays are hashed by size and content. Leaves out tokenizer and seq_len if rows have no tokens.
// `rows` comes from set_row_needs().
Fingerprint data_fingerprint(const RunConfig& config, const std::vector<std::string>& files,
                             const TokenDataOptions& rows = {});

// Affects results only if depends_on_steps().
inline constexpr const char* kSteps = "training.steps";
std::map<std::string, std::string> settings(const RunConfig& config);
Fingerprint settings_fingerprint(const std::map<std::string, std::string>& settings);

struct RunFingerprints {
  // Keys as in a manifest: "configuration", "model", "data", "adapter".
  std::map<std::string, Fingerprint> of;
  std::map<std::string, std::string> settings;
  std::string model_config;
  // Not stored in checkpoints.
  std::optional<Fingerprint> validation;
  bool is_traced = false;
};
void set_settings(const RunConfig& config, const ModelSpec& spec, RunFingerprints& made_of);
RunFingerprints fingerprints_of(const RunConfig& config, const ModelSpec& spec,
                                const OpenedWeights& weights);

// Returns all that must be equal in all processes, by name. Paths, log level and timeouts may
// differ.
std::map<std::string, std::string> identity_of(const RunConfig& config, const Plan& plan,
                                               const RunFingerprints& made_of,
                                               int threads_per_rank);

// Collective over all ranks. Throws the same Error(kUsage) on every rank if a rank's identity
// differs from rank 0's.
void require_same_run(const std::map<std::string, std::string>& identity, const Group& world);

}  // namespace sluice
