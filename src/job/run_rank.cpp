#include "job/run_rank.h"

#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "checkpoint/save_weights.h"
#include "job/model_options.h"
#include "job/step_loop.h"
#include "job/trainer_options.h"
#include "run/out_of_memory.h"
#include "sluice/causal_lm.h"

namespace sluice {
namespace {

// Says on stdout how far a first step is that takes long.
struct Progress final : ExecutorObserver {
  explicit Progress(RunLog& of) : log(of) {}
  void end(int index, const Action& /*action*/) override { log.instruction_done(index); }
  RunLog& log;
};

// To save is asked once, and stopping saves.
StepRequest request_of(StopSignal& signal) {
  if (signal.requested()) return StepRequest::kStop;
  return signal.take_save_request() ? StepRequest::kSave : StepRequest::kNone;
}

// doing: kept up to date.
std::int64_t build_and_train(ProcessRun& run, Transport& transport, std::string& doing) {
  const int rank = transport.rank();
  RunLog* const log = run.log_of(rank);
  std::optional<Progress> progress;
  const Model model = causal_lm(run.plan.model, layer_options(run.config));
  TrainerOptions options = trainer_options(run.config);
  options.requested = [&] { return request_of(run.stop); };
  options.ledger = &run.ledger;
  if (log) options.observers.push_back(&progress.emplace(*log));
  if (run.trace) options.observers.push_back(&run.trace->recorder(rank));

  doing = "looking where to begin";
  require_same_resume_point(run.resume, transport.world());
  doing = "making the modules";  // of this rank's stages and of no others
  auto trainer =
      std::make_unique<Trainer>(model, run.plan.partition, run.plan.program, transport, options);
  doing = run.weights.directory ? "loading the weights" : "drawing the weights";
  if (run.weights.directory) {
    trainer->load_weights(*run.weights.directory, run.plan.model);
  } else {
    trainer->draw_weights();
  }

  std::int64_t steps = 0;
  try {
    steps = run_steps(run, *trainer, transport.world(), doing);
  } catch (...) {
    run.post_mortem.add(rank, trainer->current_instruction(), trainer->flight_record());
    run.interrupted.at(rank) = std::move(trainer);
    throw;
  }
  doing = "saving the weights";
  if (log) log->sync_metrics();
  const std::string saved =
      save_weights(run.config.checkpoint.folder, steps, trainer->state(),
                   run.plan.model.config_text, run.config.model.path, transport.world());
  const bool finished = steps == run.config.training.steps;
  if (log) log->end(finished ? Ending::kFinished : Ending::kStopped, steps, saved);
  return steps;
}

}  // namespace

std::string place_of_rank(const Plan& plan, int rank) {
  std::vector<std::string> stages;
  for (const StageContent& stage : plan.partition.stages) {
    if (stage.rank == rank) stages.push_back(std::to_string(stage.stage));
  }
  return "rank " + std::to_string(rank) + (stages.size() == 1 ? " (stage " : " (stages ") +
         join(stages, ", ") + ")";
}

std::int64_t run_rank(ProcessRun& run, Transport& transport) {
  std::string doing;
  try {
    return build_and_train(run, transport, doing);
  } catch (...) {
    rethrow_with_place(place_of_rank(run.plan, transport.rank()) + ", " + doing,
                       kOutOfMemoryRemedy);
  }
}

}  // namespace sluice
