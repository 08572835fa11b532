#include <ATen/Parallel.h>

#include <string>

#include "base/format.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/process_job.h"
#include "engine/rank_threads.h"
#include "plan/choose/plan_one.h"
#include "sluice/error.h"
#include "sluice/model.h"
#include "sluice/parts/transport.h"
#include "sluice/pipeline.h"
#include "train/pipeline_impl.h"
#include "train/step_checks.h"

namespace sluice {
namespace {

// Restores the caller's number of threads, because ranks set the number for the whole process.
class ThreadsOfCaller {
 public:
  ThreadsOfCaller() : threads_(at::get_num_threads()) {}
  ~ThreadsOfCaller() { at::set_num_threads(threads_); }
  ThreadsOfCaller(const ThreadsOfCaller&) = delete;
  ThreadsOfCaller& operator=(const ThreadsOfCaller&) = delete;

 private:
  int threads_;
};

std::string alike(const Plan& plan, const Model& model, const RunOptions& run_options) {
  const DataParallel& replicas = plan.options.data_parallel;
  std::string text = formatted(
      "schedule = {}\nmicrobatches = {}\nreplicas = {}\nshards = {}\nseed = {}\nthreads_per_rank = "
      "{}",
      plan.schedule.name, plan.schedule.num_microbatches, replicas.degree, replicas.num_shards(),
      run_options.seed, run_options.threads_per_rank);
  for (const LayerSpec& layer : model.layers) {
    text += formatted("\nlayer {} = {} -> {}", layer.name, join(layer.reads, ", "),
                      join(layer.writes, ", "));
  }
  return text;
}

}  // namespace

void detail::run_bodies(const Model& model, const PipelineOptions& options,
                        const std::function<void(Pipeline&)>& body, const RunOptions& run_options) {
  if (run_options.threads_per_rank < 0) {
    throw Error(
        ErrorKind::kUsage,
        {.what = "a rank cannot have " + std::to_string(run_options.threads_per_rank) + " threads",
         .where = "RunOptions::threads_per_rank",
         .remedy = "give at least 1, or 0 for the cores divided among the ranks"});
  }
  const ThreadsOfCaller threads;
  PipelineOptions planned = options;
  // With several replicas the pipeline rejects a hook, so omit it.
  if (options.data_parallel.degree == 1)
    planned.hooked_reduction = hooked_reduction(run_options.reduction);
  const Plan draft =
      detail::draft_plan(model.description ? *model.description : describe(model.layers), planned);
  const int num_ranks = draft.program.mesh.num_ranks();
  ProcessJob processes(read_launch_environment(), {.num_ranks = num_ranks,
                                                   .alike = alike(draft, model, run_options),
                                                   .device = run_options.device,
                                                   .deadline = run_options.deadline,
                                                   .heartbeat = run_options.heartbeat});
  if (processes.ranks_here().front() == 0) {
    for (const std::string& warning : draft.warnings) log_warning(warning);
    if (!processes.devices().why.empty()) log_info("device: " + processes.devices().why);
  }
  processes.steps_begin();
  try {
    run_ranks(processes.connect(),
              resolve_threads_per_rank(run_options.threads_per_rank, processes.ranks_on_machine()),
              /*ledger=*/nullptr, [&](Transport& transport) {
                Pipeline pipeline(Pipeline::Impl::drafted(model, draft, transport, run_options));
                body(pipeline);
                require_call(pipeline.world(), kEndOfBody);
              });
  } catch (const Error& error) {
    throw Error(processes.agreed(error));
  }
  processes.finish();
}

}  // namespace sluice
