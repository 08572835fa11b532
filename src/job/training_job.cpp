#include <chrono>
#include <utility>

#include "job/process_run.h"
#include "run/out_of_memory.h"
#include "sluice/job.h"

namespace sluice {
namespace {

// Threads cannot vanish, and a rank that fails wakes the others; what a rank waits for is at worst
// a slow disk or a large stage.
constexpr std::chrono::hours kLongestWait{1};

}  // namespace

struct TrainingJob::Impl {
  ProcessRun run;
  std::int64_t steps = 0;
};

TrainingJob::TrainingJob(const RunConfig& config, Plan plan, StopSignal& stop,
                         std::optional<StepRange> traced) {
  const int num_ranks = plan.program.num_ranks();
  impl_.reset(new Impl{{config, std::move(plan), stop,
                        all_ranks_here(num_ranks, {.deadline = kLongestWait}), traced}});
}
TrainingJob::~TrainingJob() = default;

void TrainingJob::train() { impl_->steps = impl_->run.train(); }

std::string TrainingJob::trace() const {
  const ProcessRun& run = impl_->run;
  return run.trace && run.ranks.has_speaker() ? run.trace->text() : "";
}

int TrainingJob::close() {
  const ProcessRun& run = impl_->run;
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
