// The work of the commands that need torch, from a configuration to an exit code. A training run:
// parse, plan, build, train, close; apps/sluice/train_command.cpp is the example. An evaluation:
// one call. Every process that a launcher has started makes the same calls.
//
// Owns: what a command adds to the library: the checks before anything is created, what is printed,
//   metrics.jsonl, the trace, requests to stop, what is kept of a run that failed, the exit code.
// Does not own: the configuration (run_config.h), the plan (plan.h), a step (trainer.h).
//
// Invariants:
//  1. A job that is refused, by its constructor, has created nothing. An evaluation never creates
//     anything.
//  2. Which ranks are threads of this process is decided in one place; nothing else assumes that it
//     is all of them, or which.
//  3. A failure in one process is thrown in all of them: in one as it is, in the others as
//     ToldElsewhere.
// Thread-safety: for the main thread.
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

// The exit code of a run that a signal stopped, its checkpoint saved.
inline constexpr int kStoppedBySignal = 75;

// Steps to be traced, first to last, both included.
struct StepRange {
  std::int64_t first = 1, last = 10;
  bool after_resumed = false;  // counted from the first step that is left to do, not from step 1
};

class TrainingJob {
 public:
  // Plans the configuration; if the plan depends on the machine (depends_on_machine()), one process
  // reports its numbers when all have met, and all make the same plan. Meets the other processes,
  // where a launcher has started several (docs/launching.md); opens the data, the headers of the
  // weights and the checkpoint that the run resumes from; checks memory, folders and disk. traced:
  // none, unless given. config and stop must outlive the job. Throws Error for everything that is
  // refused; for errors of the configuration or the model before the processes meet.
  TrainingJob(const RunConfig& config, StopSignal& stop, std::optional<StepRange> traced = {});
  ~TrainingJob();

  // Trains until the last step or a request to stop, and saves the weights; reports if the last
  // step is already done and nothing is left to do. When a rank fails, the weights of the last
  // finished step are saved, stderr gets the last instructions of the ranks, and the failure is
  // thrown.
  void train();

  // After train(), also when it threw: what ran in the steps that were traced, as a Chrome trace
  // (parts/observers.h). "" without them, and in a process that does not speak for the run.
  std::string trace() const;

  // After train(): the exit code, 0 or kStoppedBySignal. Throws the Error for which metrics.jsonl
  // was given up.
  int close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The result of an evaluation.
struct Evaluation {
  double loss = 0;                 // mean over all that is counted
  std::int64_t tokens = 0;         // counted tokens, or rows or labels
  std::string counted = "tokens";  // "rows" or "labels" where rows are not sequences
  bool told_here = true;           // true in the one of several processes that prints it
  double perplexity() const;
};
// {"loss", "tokens", "perplexity", "counted"} on one line.
std::string to_json(const Evaluation& result);

// Times what layers of the configuration's model, the update and transfers take on this machine, in
// about `seconds`, or two passes of each kind of layer where these take longer, and a few more
// where they contradict each other: as many ranks at once as will share its cores. Layers that are
// alike are timed once. Needs no weights and no data. Throws Error(kUsage) for a configuration
// without a model or that does not fit it, Error(kMemory) where a layer of each kind does not fit.
MeasuredMachine measure_machine(const RunConfig& config, double seconds = 1.5);

// The loss on all sequences of data.files, once each and in the order of the files, in batches of
// training.local_batch_size (the last may be smaller), forward only through the pipeline of `plan`,
// which is of this configuration. checkpoint: a directory with the weights; "": those of
// model.path. The same bits for every layout. Throws Error as TrainingJob does, Error(kCheckpoint)
// for a checkpoint that is not there or not of this model, Error(kNotFinite).
Evaluation evaluate(const RunConfig& config, const Plan& plan, const std::string& checkpoint = "");

// A text that the model has gone on with.
struct Continuation {
  std::string prompt, text;  // text: of the new tokens
  std::vector<std::int32_t> prompt_tokens, tokens;
  std::string
      ended;  // by "end token", "tokens" (as many as were asked for), "length" (the model's)
  friend bool operator==(const Continuation&, const Continuation&) = default;
};
std::string to_json(const Continuation& continuation);

struct SampleOptions {
  std::int64_t tokens = 64;  // new ones, at most
  double temperature = 0;    // logits are divided by it before one is drawn; 0: the likeliest
  std::uint64_t seed = 0;    // seed of all draws: the same on every rank and for every layout
};

// Goes on with the prompt. config:
// model.path is a Hugging Face directory, a checkpoint, or a folder of checkpoints, of which the
// last counts; an adapter is taken with its base. The length of the sequences is the prompt's own.
// Forward only, through the pipeline of the configuration's plan. Nothing in a process that is not
// to print it. Throws Error as evaluate() does, Error(kUsage) for a prompt without tokens or as
// long as the model's sequences.
std::optional<Continuation> sample(RunConfig config, const std::string& prompt,
                                   const SampleOptions& options);

// Runs `call`, which plans and trains. Memory that runs out where no rank is to blame becomes
// Error(kMemory) that says so.
int run_job(const std::function<int()>& call);

}  // namespace sluice
