#include "job/run_rank.h"

#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "job/checkpoint_target.h"
#include "job/job_run_options.h"
#include "job/model_options.h"
#include "job/same_run.h"
#include "job/shared_folder.h"
#include "job/stage_weights.h"
#include "job/step_loop.h"
#include "run/out_of_memory.h"
#include "sluice/causal_lm.h"
#include "sluice/lora.h"
#include "sluice/parts/log.h"

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

// parameters: that train and have no state in the checkpoint.
void warn_of_fresh_state(const std::vector<std::string>& parameters, bool warns) {
  if (parameters.empty() || !warns) return;
  log_warning("the checkpoint has no optimizer state for " +
              counted(static_cast<std::int64_t>(parameters.size()), "parameter") +
              ", which begins anew: '" + parameters.front() + "'" +
              (parameters.size() > 1 ? ", .." : ""));
}

// doing: kept up to date.
std::int64_t build_and_train(ProcessRun& run, Transport& transport, std::string& doing) {
  const int rank = transport.rank();
  RunLog* const log = run.log_of(rank);
  std::optional<Progress> progress;
  InterruptedRank own;
  own.model =
      std::make_unique<Model>(causal_lm(run.plan.model, layer_options(run.config, run.adapter)));
  RunOptions options = run_options(run.config);
  options.requested = [&] { return request_of(run.stop); };
  options.ledger = &run.ledger;
  if (run.adapter) options.saves = is_adapter_parameter;
  options.observers = [&](int /*rank*/) {
    return std::vector<ExecutorObserver*>{&run.flight.recorder(rank)};
  };
  options.training_observers = [&](int /*rank*/) {
    std::vector<ExecutorObserver*> observers;
    if (log) observers.push_back(&progress.emplace(*log));
    if (run.trace) observers.push_back(&run.trace->recorder(rank));
    return observers;
  };
  const bool draws = !run.resume.checkpoint && !run.weights.directory;
  if (draws) options.weights = InitialWeights::kDrawn;

  doing = "comparing the processes";
  require_same_run(identity_of(run.config, run.plan, run.made_of,
                               run.ranks.threads_per_rank(run.config.training.threads_per_rank)),
                   transport.world());
  if (run.ranks.has_others) {
    doing = "looking for the folder of the checkpoints";
    require_shared_folder(run.config.checkpoint.folder, transport.world());
  }
  doing = "looking where to begin";
  require_same_resume_point(run.resume, transport.world());
  doing = draws ? "making the modules, drawing the weights" : "making the modules";
  own.pipeline = std::make_unique<Pipeline>(*own.model, run.plan, transport, options);
  Pipeline& pipeline = *own.pipeline;
  own.trainer = std::make_unique<Trainer>(pipeline, run.config.optimizer);
  if (run.resume.checkpoint) {
    doing = "loading the checkpoint";
    FillStage base;
    if (run.adapter) base = weights_of(*run.weights.directory, run.plan.model);
    warn_of_fresh_state(pipeline.load_state(*run.resume.checkpoint, base), log != nullptr);
    // Its files take room on the disk, once they are superseded, as long as they are open.
    transport.world().barrier().wait();
    if (rank == run.ranks.here.front()) run.resume.checkpoint->close();
  } else if (run.weights.directory) {
    doing = "loading the weights";
    pipeline.load_weights(weights_of(*run.weights.directory, run.plan.model,
                                     run.adapter_tensors ? &*run.adapter_tensors : nullptr,
                                     pipeline.seed()));
  }

  own.saves = std::make_unique<RankSaves>(
      run.config.checkpoint,
      [&run, log](std::int64_t step) {
        if (log) log->sync_metrics();  // also drops lines of steps that this run makes again
        return checkpoint_target(run, step);
      },
      pipeline, log != nullptr);
  std::int64_t steps = 0;
  std::string saved;
  try {
    steps = run_steps(run, pipeline, *own.trainer, *own.saves, doing);
    doing = "saving the last checkpoint";
    saved = own.saves->finish(steps, transport.world());
  } catch (...) {
    run.post_mortem.add(rank, pipeline.current_instruction(), pipeline.flight_record());
    run.interrupted.at(rank) = std::move(own);
    throw;
  }
  const bool finished = steps == run.config.training.steps;
  if (log) log->end(finished ? Ending::kFinished : Ending::kStopped, steps, saved);
  return steps;
}

}  // namespace

std::string place_of_rank(const Plan& plan, int rank) {
  std::vector<std::string> stages;
  const int row = plan.program.mesh.coordinate(rank, Axis::kPp);
  for (const StageContent& stage : plan.partition.stages) {
    if (stage.rank == row) stages.push_back(std::to_string(stage.stage));
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
