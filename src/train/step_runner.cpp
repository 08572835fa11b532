#include "train/step_runner.h"

#include <ATen/ops/zeros.h>

#include <utility>

#include "engine/executor.h"
#include "plan/data_parallel.h"
#include "sluice/parts/transport.h"
#include "train/step_checks.h"

namespace sluice {
namespace {

ExecutorOptions executor_options(const Program& program, const ModelEnd& end, RankModel& rank,
                                 const RunOptions& options, OutputWatch& outputs,
                                 const std::vector<ExecutorObserver*>& observers) {
  ExecutorOptions result;
  result.seed = options.seed;
  result.scale = options.scale;
  result.auxiliary = end.auxiliary;
  result.input_metas = [&stages = rank.stages](int stage, const Values& batch) {
    return stages.input_metas(stage, batch);
  };
  const bool in_shards =
      !program.forward_only && !program.update_only && detail::sums_in_shards(rank.data_parallel);
  result.num_shards = in_shards ? rank.data_parallel.shards : 0;
  result.observers = {&outputs};
  result.observers.insert(result.observers.end(), observers.begin(), observers.end());
  return result;
}

}  // namespace

ModelEnd::ModelEnd(const Model& model)
    : outputs(model.outputs),
      loss(model.auxiliary.empty() ? with_graph(model.loss) : model.loss),
      auxiliary(model.auxiliary) {}

ModelEnd ModelEnd::without_loss() const {
  ModelEnd end = *this;
  end.loss = [](const Values&, const Values&) { return LossValue{at::zeros({}), 0}; };
  return end;
}

StepRunner::StepRunner(Program program, RankModel& rank, Transport& transport, const ModelEnd& end,
                       const RunOptions& options, const std::vector<ExecutorObserver*>& observers,
                       StepUpdate& update)
    : program_(std::move(program)),
      outputs_(program_, end.outputs),
      ops_(program_, rank, outputs_, options, end.auxiliary, update),
      executor_(program_, transport.rank(), rank.stages.pointers(), transport, ops_, end.loss,
                executor_options(program_, end, rank, options, outputs_, observers)) {
  ops_.watch(executor_);
}

StepResult StepRunner::run(const StepBatch& batch, const StepOptions& options) {
  outputs_.keep(options.outputs != OutputRanks::kNone);
  ops_.begin_step();
  executor_.run_step(batch);
  ops_.end_step(batch.step);
  StepResult result = ops_.result();
  result.outputs = outputs_.take();
  return result;
}

}  // namespace sluice
