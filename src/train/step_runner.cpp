#include "train/step_runner.h"

#include <utility>

#include "plan/data_parallel.h"
#include "sluice/parts/transport.h"
#include "sluice/verify.h"

namespace sluice {
namespace {

Program proven(Program program) {
  require_verified(verify(program), "the program of a step");
  return program;
}

ExecutorOptions executor_options(const ModelEnd& end, RankStages& stages, const RunOptions& options,
                                 OutputWatch& outputs,
                                 const std::vector<ExecutorObserver*>& observers,
                                 const DataParallel& data_parallel) {
  ExecutorOptions result;
  result.seed = options.seed;
  result.scale = options.scale;
  result.auxiliary = end.auxiliary;
  result.input_metas = [&stages](int stage, const Values& batch) {
    return stages.input_metas(stage, batch);
  };
  result.num_shards = detail::sums_in_shards(data_parallel) ? data_parallel.shards : 0;
  result.observers = {&outputs};
  result.observers.insert(result.observers.end(), observers.begin(), observers.end());
  return result;
}

}  // namespace

StepRunner::StepRunner(Program program, RankStages& stages,
                       const std::vector<SharedParameter>& parameters, Transport& transport,
                       const RunGroups& groups, const ModelEnd& end, const RunOptions& options,
                       const std::vector<ExecutorObserver*>& observers,
                       const DataParallel& data_parallel)
    : program_(proven(std::move(program))),
      end_(end),
      outputs_(program_, end_.outputs),
      ops_(program_, parameters, stages.pointers(), groups, outputs_, options.reduction,
           data_parallel),
      executor_(program_, transport.rank(), stages.pointers(), transport, ops_, end_.loss,
                executor_options(end_, stages, options, outputs_, observers, data_parallel)) {
  ops_.watch(executor_);
}

StepResult StepRunner::run(const StepBatch& batch, const StepOptions& options) {
  outputs_.keep(options.outputs != OutputRanks::kNone);
  executor_.run_step(batch);
  StepResult result = ops_.result();
  result.outputs = outputs_.take();
  return result;
}

}  // namespace sluice
