#include "job/step_loop.h"

#include <chrono>

#include "sluice/causal_lm.h"
#include "sluice/optimizer.h"

namespace sluice {
namespace {

struct Stopwatch {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

}  // namespace

std::int64_t run_steps(ProcessRun& run, Trainer& trainer, const Group& world, std::string& doing) {
  RunLog* const log = run.log_of(world.rank());
  const TrainingOptions& training = run.config.training;
  for (std::int64_t step = 1;; ++step) {
    const Stopwatch watch;
    doing = "step " + std::to_string(step);
    // Whatever fails from here on finds the step before finished and logged by every rank.
    world.barrier().wait();
    const StepBatch batch = causal_lm_batch(run.data.step_rows(step, training.local_batch_size),
                                            training.microbatch_size, step);
    const double lr =
        learning_rate(step, training.steps, run.config.optimizer.lr, run.config.lr_scheduler);
    const StepReport& report = trainer.step(batch, lr);
    run.stop.step_finished();

    if (step == 1) {
      const std::vector<int> unsplit = trainer.gather_unsplit_stages();
      if (log) log->unsplit_stages(unsplit);
    }
    const bool last = report.stop || step == training.steps;
    if (last || is_logged(step, training.steps, run.config.metrics.log_freq)) {
      const std::vector<RankStats> stats = trainer.gather_stats();
      if (log) log->step(step, lr, watch.seconds(), report, stats);
    } else if (log) {
      log->skip_step(watch.seconds());
    }
    if (last) return step;
  }
}

}  // namespace sluice
