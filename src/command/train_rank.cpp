#include "command/train_rank.h"

#include <chrono>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/directory_weights.h"
#include "command/evaluation.h"
#include "command/fingerprints.h"
#include "command/inputs.h"
#include "engine/rank_errors.h"
#include "kind/adapter_files.h"
#include "model/model_maker.h"
#include "ops/kept_memory.h"
#include "optim/optimizer.h"
#include "report/run_texts.h"
#include "report/straggler.h"
#include "sluice/error.h"
#include "sluice/lora.h"
#include "train/pipeline_control.h"

namespace sluice {
namespace {

struct Stopwatch {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

double wait_for_all(const Group& world) {
  const Stopwatch watch;
  world.barrier().wait();
  return watch.seconds();
}

bool is_validated(const ProcessRun& run, std::int64_t step) {
  const bool has_any = run.validation || !run.prompts.empty();
  return has_any && run.config.validation.interval.is_due(step);
}

double validation_loss(const ProcessRun& run, const Model& model, Pipeline& pipeline, int rank,
                       std::int64_t step, const std::string& doing) {
  const double loss =
      evaluate_data(
          *run.validation, model, evaluation_batches(run.config, run.plan, rank),
          run.config.validation.steps, step,
          [&](const StepBatch& batch) { return PipelineControl(pipeline).evaluate(batch); })
          .mean();
  if (std::isfinite(loss)) return loss;
  throw Error(ErrorKind::kNotFinite, {.what = "the validation loss is not finite",
                                      .where = doing,
                                      .remedy = "lower optimizer.lr, or look at the weights"});
}

// Collective over all ranks.
Validated validate(const ProcessRun& run, const Model& model, Pipeline& pipeline, int rank,
                   std::int64_t step, std::string& doing) {
  Validated validated;
  doing = formatted("validation after step {}", step);
  if (run.validation) validated.loss = validation_loss(run, model, pipeline, rank, step, doing);
  doing = formatted("continuing validation.prompts after step {}", step);
  for (const Prompt& prompt : run.prompts) {
    Continuation continuation = prompt.go_on(pipeline);
    validated.continuations.emplace_back(std::move(continuation.prompt),
                                         std::move(continuation.text));
  }
  // Each token ran with another sequence length, so the allocator's free blocks fit no later
  // request.
  if (!run.prompts.empty()) ops::drop_free_memory();
  return validated;
}

// Warns of stragglers (slow ranks).
class StragglerSearch {
 public:
  explicit StragglerSearch(const Plan& plan) : work_(rank_work(plan)), watch_(work_) {}

  // Returns this rank's CPU time since the last logged step.
  double add_step(double compute_cpu) {
    ++steps_;
    return compute_cpu_ += compute_cpu;
  }
  // `stats` has all ranks' times.
  void gathered(const std::vector<RankStats>& stats, RunLog& log) {
    std::vector<double> seconds;
    seconds.reserve(stats.size());
    for (const RankStats& rank : stats) seconds.push_back(rank.times.compute_cpu);
    for (const Straggler& straggler : watch_.add(seconds, steps_)) {
      log_warning(straggler_text(straggler, work_.at(straggler.rank)));
      log.straggles(straggler.rank);
    }
  }
  void restart() { compute_cpu_ = 0, steps_ = 0; }

 private:
  const std::vector<RankWork> work_;
  StragglerWatch watch_;
  double compute_cpu_ = 0;
  std::int64_t steps_ = 0;
};

// Collective over all ranks. Returns the number of steps done, including earlier runs'. `ran` gets
// the last step's instructions. `doing` describes the current activity, for out-of-memory errors
// between instructions.
std::int64_t run_steps(ProcessRun& run, const Model& model, Pipeline& pipeline, Trainer& trainer,
                       RankSaves& saves, LastStep& ran, std::string& doing) {
  const Group& world = pipeline.world();
  RunLog* const log = run.log_of(world.rank());
  const TrainingOptions& training = run.config.training;
  const BatchRange own = run.rows_of(world.rank());
  const std::int64_t first = run.resume.done.steps + 1;
  const ModelMaker& maker = maker_of(run.config.kinds, run.plan.model);
  StragglerSearch stragglers(run.plan);
  for (std::int64_t step = first;; ++step) {
    doing = formatted("step {}", step);
    // Afterwards every rank has completed and logged the previous step.
    world.barrier().wait();
    if (log && step == first)
      log->steps_begin(run.ranks.threads_per_rank(training.threads_per_rank));
    const Stopwatch watch;
    const StepBatch batch = maker.batch(run.batches->take(step, world.rank()), model, own.first,
                                        training.microbatch_size, step);
    const double lr =
        learning_rate(step, training.steps, run.config.optimizer.lr, run.config.lr_scheduler);
    const StepResult report = trainer.step(batch, lr);
    run.stop.step_finished();
    if (step == first) run.ranks.steps_begin();

    const bool last = report.request == StepRequest::kStop || step == training.steps;
    const bool validates = is_validated(run, step);
    const bool logs =
        last || validates || is_logged(step, training.steps, run.config.metrics.log_freq);
    StepTimes times = pipeline.times();
    if (logs) times.reduction += wait_for_all(world);
    times.total = watch.seconds();
    times.compute_cpu = stragglers.add_step(times.compute_cpu);

    if (step == first) {
      const std::vector<int> unsplit = PipelineControl(pipeline).gather_unsplit_stages();
      if (log) log->unsplit_stages(unsplit);
    }
    if (last) ran = gather_last_step(world, run.flight.recorder(world.rank()).record());
    if (run.trace && run.trace->ends_with(step, last)) run.trace->gather(world);
    if (logs) {
      const std::vector<RankStats> stats = PipelineControl(pipeline).gather_stats(times);
      if (log) stragglers.gathered(stats, *log);
      stragglers.restart();
      Validated validated;
      try {
        if (validates) validated = validate(run, model, pipeline, world.rank(), step, doing);
      } catch (...) {
        if (log) log->step(step, lr, report, stats, {});
        throw;
      }
      if (log) log->step(step, lr, report, stats, std::move(validated));
    } else if (log) {
      log->skip_step(times.total);
    }
    if (last) return step;
    doing = formatted("saving after step {}", step);
    saves.after_step(step, report.request, world);
  }
}

struct Progress final : ExecutorObserver {
  explicit Progress(RunLog& of) : log(of) {}
  void end(int index, const Action& /*action*/) override { log.instruction_done(index); }
  RunLog& log;
};

StepRequest request_of(StopSignal& signal) {
  if (signal.requested()) return StepRequest::kStop;
  return signal.take_save_request() ? StepRequest::kSave : StepRequest::kNone;
}

// The pipeline keeps a pointer into `progress`, which must outlive it.
RunOptions rank_options(ProcessRun& run, int rank, std::optional<Progress>& progress) {
  RunOptions options = run_options(run.config);
  options.requested = [&run] { return request_of(run.stop); };
  options.ledger = &run.ledger;
  if (run.adapter) options.saves = is_adapter_parameter;
  options.observers = [&run, rank](int /*rank*/) {
    return std::vector<ExecutorObserver*>{&run.flight.recorder(rank)};
  };
  options.training_observers = [&run, rank, &progress](int /*rank*/) {
    std::vector<ExecutorObserver*> observers;
    if (RunLog* const log = run.log_of(rank)) observers.push_back(&progress.emplace(*log));
    if (run.trace) observers.push_back(&run.trace->recorder(rank));
    return observers;
  };
  const bool draws = !run.resume.checkpoint && !run.weights.directory;
  if (draws) options.weights = InitialWeights::kDrawn;
  return options;
}

// Collective over all ranks. Throws unless run, checkpoint folder and resume point are equal in all
// processes.
void compare_processes(const ProcessRun& run, const Group& world, std::string& doing) {
  doing = "comparing the processes";
  require_same_run(identity_of(run.config, run.plan, run.made_of,
                               run.ranks.threads_per_rank(run.config.training.threads_per_rank)),
                   world);
  if (run.ranks.has_others) {
    doing = "looking for the folder of the checkpoints";
    require_shared_folder(run.config.checkpoint.folder, world);
  }
  doing = "finding where to start";
  require_same_resume_point(run.resume, world);
}

void load(ProcessRun& run, Pipeline& pipeline, std::string& doing) {
  const int rank = pipeline.world().rank();
  if (run.resume.checkpoint) {
    doing = "loading the checkpoint";
    FillStage base;
    if (run.adapter) base = weights_of(*run.weights.directory, run.plan.model);
    PipelineControl(pipeline).load_state(*run.resume.checkpoint, base);
    // After all ranks have loaded, close the files, because replaced ones occupy the disk while
    // open.
    pipeline.world().barrier().wait();
    if (rank == run.ranks.here.front()) run.resume.checkpoint->close();
  } else if (run.weights.directory) {
    doing = "loading the weights";
    pipeline.load_weights(weights_of(*run.weights.directory, run.plan.model,
                                     run.adapter_tensors ? &*run.adapter_tensors : nullptr,
                                     pipeline.seed()));
  }
}

std::int64_t build_and_train(ProcessRun& run, Transport& transport, std::string& doing) {
  const int rank = transport.rank();
  RunLog* const log = run.log_of(rank);
  std::optional<Progress> progress;
  InterruptedRank own;
  own.model = std::make_unique<Model>(run_model(run.config, run.plan.model, run.adapter));
  compare_processes(run, transport.world(), doing);
  const RunOptions options = rank_options(run, rank, progress);
  const bool draws = options.weights == InitialWeights::kDrawn;
  doing = draws ? "making the modules, drawing the weights" : "making the modules";
  own.pipeline = std::make_unique<Pipeline>(*own.model, run.plan, transport, options);
  Pipeline& pipeline = *own.pipeline;
  own.trainer = std::make_unique<Trainer>(pipeline, run.config.optimizer);
  own.began_after = run.resume.done.steps;
  load(run, pipeline, doing);

  own.saves = std::make_unique<RankSaves>(
      run.config.checkpoint,
      [&run, log](std::int64_t step) {
        if (log) log->saves(step);  // also drops log lines of steps that run again
        return run.target(step);
      },
      pipeline, log != nullptr);
  std::int64_t steps = 0;
  std::string saved;
  LastStep ran;
  try {
    steps = run_steps(run, *own.model, pipeline, *own.trainer, *own.saves, ran, doing);
    doing = "saving the last checkpoint";
    saved = own.saves->finish(steps, transport.world());
  } catch (...) {
    run.post_mortem.add(rank, PipelineControl(pipeline).current_instruction(),
                        PipelineControl(pipeline).flight_record());
    run.interrupted.at(rank) = std::move(own);
    throw;
  }
  const bool finished = steps == run.config.training.steps;
  if (log) {
    log->end({.ending = finished ? Ending::kFinished : Ending::kStopped,
              .step = steps,
              .weights = saved,
              .last = std::move(ran)});
  }
  return steps;
}

}  // namespace

std::int64_t train_rank(ProcessRun& run, Transport& transport) {
  std::string doing;
  try {
    return build_and_train(run, transport, doing);
  } catch (...) {
    rethrow_with_place(formatted("{}, {}", place_of_rank(run.plan, transport.rank()), doing),
                       kOutOfMemoryRemedy);
  }
}

}  // namespace sluice
