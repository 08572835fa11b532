#include "train/step_runner.h"

#include <utility>

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
                                 const std::vector<ExecutorObserver*>& observers) {
  ExecutorOptions result;
  result.seed = options.seed;
  result.scale = options.scale;
  result.auxiliary = end.auxiliary;
  result.input_metas = [&stages](int stage, const Values& batch) {
    return stages.input_metas(stage, batch);
  };
  result.observers = {&outputs};
  result.observers.insert(result.observers.end(), observers.begin(), observers.end());
  return result;
}

}  // namespace

StepRunner::StepRunner(Program program, RankStages& stages,
                       const std::vector<SharedParameter>& parameters, Transport& transport,
                       const ModelEnd& end, const RunOptions& options,
                       const std::vector<ExecutorObserver*>& observers)
    : program_(proven(std::move(program))),
      end_(end),
      outputs_(program_, end_.outputs),
      ops_(program_, parameters, stages.pointers(), transport.world(), outputs_, options.reduction),
      executor_(program_, transport.rank(), stages.pointers(), transport, ops_, end_.loss,
                executor_options(end_, stages, options, outputs_, observers)) {
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
