#include "job/step_loop.h"

#include <chrono>
#include <cmath>
#include <optional>

#include "job/evaluate_data.h"
#include "job/straggler.h"
#include "sluice/causal_lm.h"
#include "sluice/error.h"
#include "sluice/options.h"
#include "sluice/parts/log.h"

namespace sluice {
namespace {

struct Stopwatch {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

// The seconds that it took until all ranks had come here.
double wait_for_all(const Group& world) {
  const Stopwatch watch;
  world.barrier().wait();
  return watch.seconds();
}

bool is_validated(const ProcessRun& run, std::int64_t step) {
  const std::int64_t interval = run.config.validation.interval;
  return run.validation && interval > 0 && step % interval == 0;
}

double validate(const ProcessRun& run, Pipeline& pipeline, int rank, std::int64_t step,
                std::string& doing) {
  doing = "validation after step " + std::to_string(step);
  const double loss =
      evaluate_data(*run.validation, evaluation_batches(run.config, run.plan, rank),
                    run.config.validation.steps, step,
                    [&](const StepBatch& batch) { return pipeline.evaluate(batch); })
          .mean();
  if (std::isfinite(loss)) return loss;
  throw Error(ErrorKind::kNotFinite, {.what = "the loss of the validation is not finite",
                                      .where = doing,
                                      .remedy = "lower optimizer.lr, or look at the weights"});
}

// Computing since stragglers were looked for last: at the steps that are logged.
class StragglerSearch {
 public:
  explicit StragglerSearch(const Plan& plan) : work_(rank_work(plan)), watch_(work_) {}

  // Of a step of this rank. Returns the sum over all those that were not gathered yet.
  double add_step(double compute_cpu) {
    ++steps_;
    return compute_cpu_ += compute_cpu;
  }
  // stats: of all ranks, with that sum. Warns of each straggler once.
  void gathered(const std::vector<RankStats>& stats) {
    std::vector<double> seconds;
    for (const RankStats& rank : stats) seconds.push_back(rank.times.compute_cpu);
    for (const Straggler& straggler : watch_.add(seconds, steps_))
      log_warning(straggler_text(straggler, work_.at(straggler.rank)));
  }
  void restart() { compute_cpu_ = 0, steps_ = 0; }

 private:
  const std::vector<RankWork> work_;
  StragglerWatch watch_;
  double compute_cpu_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace

std::int64_t run_steps(ProcessRun& run, Pipeline& pipeline, Trainer& trainer, RankSaves& saves,
                       std::string& doing) {
  const Group& world = pipeline.world();
  RunLog* const log = run.log_of(world.rank());
  const TrainingOptions& training = run.config.training;
  const BatchRange own = run.rows_of(world.rank());
  const std::int64_t first = run.resume.done.steps + 1;
  StragglerSearch stragglers(run.plan);
  for (std::int64_t step = first;; ++step) {
    doing = "step " + std::to_string(step);
    // Whatever fails from here on finds the step before finished and logged by every rank.
    world.barrier().wait();
    const Stopwatch watch;
    const StepBatch batch = causal_lm_batch(run.batches->take(step, world.rank()), own.first,
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
      const std::vector<int> unsplit = pipeline.gather_unsplit_stages();
      if (log) log->unsplit_stages(unsplit);
    }
    if (run.trace && run.trace->ends_with(step, last)) run.trace->gather(world);
    if (logs) {
      const std::vector<RankStats> stats = pipeline.gather_stats(times);
      if (log) stragglers.gathered(stats);
      stragglers.restart();
      std::optional<double> validation_loss;
      try {
        if (validates) validation_loss = validate(run, pipeline, world.rank(), step, doing);
      } catch (...) {  // the step itself is done
        if (log) log->step(step, lr, report, stats, std::nullopt);
        throw;
      }
      if (log) log->step(step, lr, report, stats, validation_loss);
    } else if (log) {
      log->skip_step(times.total);
    }
    if (last) return step;
    doing = "saving after step " + std::to_string(step);
    saves.after_step(step, report.request, world);
  }
}

}  // namespace sluice
