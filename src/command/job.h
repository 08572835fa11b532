// What the commands that need torch do, from the configuration to the exit code. Training makes
// several calls (see apps/sluice/train_command.cpp), and evaluation makes one. Every launched
// process makes the same calls, from its main thread.
//
// A refused TrainingJob has created no files, and an evaluation never creates any. Do not assume
// which ranks run in this process: processes.h decides it. If one process fails, all throw: one
// throws the error and the others throw ToldElsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "launch/stop_signal.h"
#include "launch/told_elsewhere.h"
#include "sluice/error.h"
#include "sluice/plan.h"

namespace sluice {

// Exit code of a run that saved a checkpoint and stopped because of a signal.
inline constexpr int kStoppedBySignal = 75;

// Steps to trace, inclusive.
struct StepRange {
  std::int64_t first = 1, last = 10;
  bool after_resumed = false;  // count from the first remaining step
};

class TrainingJob {
 public:
  // Plans, connects to the other processes (docs/launching.md), opens data, weights and the
  // checkpoint, and checks memory, folders and disk. If the plan depends on the machine
  // (depends_on_machine()), one process measures and all use its numbers. `traced`: no steps by
  // default. `config` and `stop` must outlive the job. Throws Error for everything that is refused.
  // Errors of the configuration or model come before the processes connect.
  TrainingJob(const RunConfig& config, StopSignal& stop, std::optional<StepRange> traced = {});
  ~TrainingJob();

  // Trains until the last step or a stop request, and saves the weights. If no steps are left, only
  // reports this. If a rank fails, saves the weights of the last complete step, prints the ranks'
  // last instructions to stderr, and throws the failure.
  void train();

  // After train(), also when it threw: what ran in the steps that were traced, as a Chrome trace
  // (parts/observers.h). "" without them, and in a process that does not speak for the run.
  std::string trace() const;

  // Call after train(). Returns 0 or kStoppedBySignal. Throws if metrics.jsonl could not be
  // written.
  int close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct Evaluation {
  double loss = 0;                 // mean per counted unit
  std::int64_t tokens = 0;         // or rows or labels
  std::string counted = "tokens";  // "rows" or "labels" if rows are not sequences
  bool told_here = true;           // true in the one process that prints the result
  double perplexity() const;
};
// {"loss", "tokens", "perplexity", "counted"} on one line.
std::string to_json(const Evaluation& result);

// Times the layers, the update and transfers on this machine for about `seconds`. Takes longer if
// two passes do, or if samples contradict each other. Runs as many ranks at once as will share the
// cores. Times equal layers once. Needs no weights and no data. Throws Error(kUsage) without a
// model or if the configuration does not fit it, and Error(kMemory) if one layer of each kind does
// not fit.
MeasuredMachine measure_machine(const RunConfig& config, double seconds = 1.5);

// Computes the loss on every sequence of data.files, in file order, with the forwards of `plan`.
// Batches have training.local_batch_size sequences, and the last may be smaller. `checkpoint` is a
// directory of weights, or "" for model.path. The result has the same bits for every layout. Throws
// like TrainingJob, Error(kCheckpoint) for a missing or foreign checkpoint, and Error(kNotFinite).
Evaluation evaluate(const RunConfig& config, const Plan& plan, const std::string& checkpoint = "");

struct Continuation {
  std::string prompt, text;  // `text` is that of the new tokens
  std::vector<std::int32_t> prompt_tokens, tokens;
  std::string
      ended;  // reason: "end token", "tokens" (the requested number), "length" (the model's limit)
  friend bool operator==(const Continuation&, const Continuation&) = default;
};
std::string to_json(const Continuation& continuation);

struct SampleOptions {
  std::int64_t tokens = 64;  // most new tokens
  double temperature = 0;    // divides the logits before drawing; 0: take the likeliest token
  std::uint64_t seed = 0;    // the same draws on every rank and for every layout
};

// Continues the prompt with the forwards of the configured plan. model.path may be a Hugging Face
// directory, a checkpoint, or a folder of checkpoints, of which the last is used. An adapter brings
// its base. seq_len becomes the prompt's length. Returns nothing in processes that do not print.
// Throws like evaluate(), and Error(kUsage) for a prompt without tokens or as long as the model's
// sequences.
std::optional<Continuation> sample(RunConfig config, const std::string& prompt,
                                   const SampleOptions& options);

// If memory runs out while planning, before any rank started, the error says so.
int run_job(const std::function<int()>& call);

}  // namespace sluice
