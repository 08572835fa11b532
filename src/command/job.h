// The commands that need LibTorch. Every launched process makes the same calls from its main
// thread. If one process fails, one throws the error, and the others throw ReportedElsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "launch/reported_elsewhere.h"
#include "launch/stop_signal.h"
#include "sluice/error.h"
#include "sluice/plan.h"

namespace sluice {

inline constexpr int kStoppedBySignal = 75;

struct StepRange {
  std::int64_t first = 1, last = 10;
  bool after_resumed = false;  // count from the first step after the resumed checkpoint
};

class TrainingJob {
 public:
  // Plans, connects to the other processes (docs/launching.md), and opens and checks inputs, memory
  // and folders. Creates no files if it throws. Checks configuration and model before connecting.
  // `config` and `stop` must outlive the job.
  TrainingJob(const RunConfig& config, StopSignal& stop, std::optional<StepRange> traced = {});
  ~TrainingJob();

  // Trains until the last step or a stop request, and saves the weights. If a rank fails, saves the
  // last complete step, prints the ranks' last instructions to stderr and throws the rank's error.
  void train();

  // Returns the traced steps as a Chrome trace. Call after train(), even if it threw. Empty in
  // processes without rank 0.
  std::string trace() const;

  // Call after train(). Returns the exit code, 0 or kStoppedBySignal. Throws if metrics.jsonl could
  // not be written.
  int close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct Evaluation {
  double loss = 0;                 // mean per counted token, row or label
  std::int64_t tokens = 0;         // or rows or labels
  std::string counted = "tokens";  // "rows" or "labels" if rows are not sequences
  bool prints_here = true;
  double perplexity() const;
};
std::string to_json(const Evaluation& result);

// Times layers, optimizer update and transfers on this machine for about `seconds`, in at least two
// passes, and more if samples contradict each other. Needs neither weights nor data. Throws
// Error(kUsage) if no model fits the configuration, and Error(kMemory) if one layer of each kind
// does not fit.
MeasuredMachine measure_machine(const RunConfig& config, double seconds = 1.5);

// Computes the loss on all of data.files in file order, with forwards only. Every layout gives the
// same bits. `plan` is the plan of `config`. `checkpoint` is a directory of weights, or "" for
// model.path. Throws like TrainingJob, Error(kCheckpoint) for a missing checkpoint or one of
// another model, and Error(kNotFinite).
Evaluation evaluate(const RunConfig& config, const Plan& plan, const std::string& checkpoint = "");

struct Continuation {
  std::string prompt, text;  // `text` holds only the new tokens
  std::vector<std::int32_t> prompt_tokens, tokens;
  // Why it ended: "end token", "tokens" (the requested number) or "length" (the model's limit).
  std::string ended;
  friend bool operator==(const Continuation&, const Continuation&) = default;
};
std::string to_json(const Continuation& continuation);

struct SampleOptions {
  std::int64_t tokens = 64;
  double temperature = 0;  // 0: take the most likely token
  std::uint64_t seed = 0;  // draws are equal on every rank and for every layout
};

// Continues the prompt. model.path is a Hugging Face directory, a checkpoint, or a folder of
// checkpoints, of which the last is used. An adapter is used with its base model. seq_len becomes
// the prompt's length. Returns nothing in processes that do not print. Throws like evaluate(), and
// Error(kUsage) for a prompt without tokens or too long for the model.
std::optional<Continuation> sample(RunConfig config, const std::string& prompt,
                                   const SampleOptions& options);

// Explains out-of-memory errors that occur before any rank started.
int run_job(const std::function<int()>& call);

}  // namespace sluice
