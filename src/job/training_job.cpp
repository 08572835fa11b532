#include <chrono>
#include <utility>

#include "comm/process_job.h"
#include "io/published_directory.h"
#include "job/job_processes.h"
#include "job/measured_once.h"
#include "job/process_run.h"
#include "run/out_of_memory.h"
#include "sluice/job.h"

namespace sluice {

struct TrainingJob::Impl {
  ProcessJob processes;
  std::optional<ProcessRun> run;
  std::int64_t steps = 0;

  explicit Impl(const RunConfig& config, int num_ranks)
      : processes(prepared(config), job_options(config, num_ranks)) {}

  // What an ended run has left on its way, before any process looks for checkpoints: all of them
  // meet in the next step.
  static LaunchEnvironment prepared(const RunConfig& config) {
    LaunchEnvironment environment = read_launch_environment();
    if (environment.layout.process == 0) io::put_back_steps(config.checkpoint.folder);
    return environment;
  }
};

TrainingJob::TrainingJob(const RunConfig& config, Plan plan, StopSignal& stop,
                         std::optional<StepRange> traced) {
  const int num_ranks = plan.program.mesh.num_ranks();
  impl_ = std::make_unique<Impl>(config, num_ranks);
  told_to_all(impl_->processes, [&] {
    impl_->run.emplace(config, std::move(plan), stop, ranks_of(impl_->processes, num_ranks),
                       traced);
  });
}

TrainingJob::TrainingJob(const RunConfig& config, StopSignal& stop,
                         std::optional<StepRange> traced) {
  const bool has_others = read_launch_environment().layout.num_processes > 1;
  const bool is_told = needs_measurement(config) || (has_others && depends_on_machine(config));
  if (!is_told) {
    TrainingJob planned(config, plan_of_config(config), stop, traced);
    std::swap(impl_, planned.impl_);
    return;
  }
  require_plannable(config);  // meeting and measuring take their time
  const PipelineOptions& pipeline = config.parallelism.pipeline;
  const int num_ranks = pipeline.num_ranks.value_or(1) * pipeline.data_parallel.degree;
  impl_ = std::make_unique<Impl>(config, num_ranks);
  told_to_all(impl_->processes, [&] {
    const MeasuredMachine measured = measured_once(config, impl_->processes);
    impl_->run.emplace(config, plan_of_config(config, &measured), stop,
                       ranks_of(impl_->processes, num_ranks), traced);
  });
}
TrainingJob::~TrainingJob() = default;

void TrainingJob::train() {
  told_to_all(impl_->processes, [this] { impl_->steps = impl_->run->train(); });
  impl_->processes.finish();
}

std::string TrainingJob::trace() const {
  const ProcessRun& run = *impl_->run;
  return run.trace && run.ranks.has_speaker() ? run.trace->text() : "";
}

int TrainingJob::close() {
  const ProcessRun& run = *impl_->run;
  if (impl_->steps < run.config.training.steps) return kStoppedBySignal;
  if (run.log && run.log->metrics_error()) throw Error(*run.log->metrics_error());
  return 0;
}

int run_job(const std::function<int()>& call) {
  try {
    return call();
  } catch (...) {
    rethrow_with_place("planning, before any rank started",
                       "use fewer microbatches a step: lower training.local_batch_size or raise "
                       "training.microbatch_size");
  }
}

}  // namespace sluice
