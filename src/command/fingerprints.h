// The inputs of a run, as its checkpoints record them and its processes compare them: the model
// that it started from, the data, the settings that decide numbers.
//
// Owns: the choice of what counts: names, paths and times of files never do, nor layout, folders,
// number of steps and metrics. Does not own: the consequence of a difference (resume.h).
// Thread-safety: pure functions of the configuration and the files; require_same_run() is one call
// a rank, each on its own thread.
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

// The part of a config.json that decides the numbers of its model: without names, versions, the
// type of the file and what is of generation, in which copies of a model differ. An empty object
// for a text that is none.
Json model_of(const std::string& config_text);

// config.json (model_of()) and the files of the weights in the order of their names; without
// any, that they are drawn.
Fingerprint model_fingerprint(const ModelSpec& spec, const OpenedWeights& weights);

// files: as they are read, in their order. With what decides which sequence is number n: the
// format, the keys of data that are not their default, seq_len, the tokenizer that makes tokens of
// text, the seed where the order hangs on it.
// rows: what the model makes of them (set_row_needs()). Neither tokenizer nor seq_len decide
// rows without tokens; the arrays that fields name count by size and content.
Fingerprint data_fingerprint(const RunConfig& config, const std::vector<std::string>& files,
                             const TokenDataOptions& rows = {});

// "section.key" -> its value as TOML, of every key that decides numbers.
// The key that changes numbers only if the learning rate decays.
inline constexpr const char* kSteps = "training.steps";
std::map<std::string, std::string> settings(const RunConfig& config);
// The same as a fingerprint.
Fingerprint settings_fingerprint(const std::map<std::string, std::string>& settings);

struct RunFingerprints {
  // Fingerprints by their names in a manifest.
  std::map<std::string, Fingerprint> of;  // "configuration", "model", "data", "adapter"
  std::map<std::string, std::string> settings;
  // The part of config.json that counts, to say what differs.
  std::string model_config;
  // Not in checkpoints: validation.files, and whether steps are traced.
  std::optional<Fingerprint> validation;
  bool is_traced = false;
};
// Throws Error(kInput) for a file that cannot be read.
RunFingerprints fingerprints_of(const RunConfig& config, const ModelSpec& spec,
                                const OpenedWeights& weights);

// All that has to be the same in every process, by what a user would call it: versions, kind of CPU
// kernels, instructions of the plan, contents of model and data, and every setting but paths, what
// is printed and what is waited for. threads_per_rank: as resolved on this machine.
std::map<std::string, std::string> identity_of(const RunConfig& config, const Plan& plan,
                                               const RunFingerprints& made_of,
                                               int threads_per_rank);

// Collective over all ranks. Throws Error(kUsage), the same on every rank, naming the first rank
// whose process differs from that of rank 0, and in what.
void require_same_run(const std::map<std::string, std::string>& identity, const Group& world);

}  // namespace sluice
