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

ExecutorOptions executor_options(RankStages& stages, const RunOptions& options,
                                 OutputWatch& outputs,
                                 const std::vector<ExecutorObserver*>& observers) {
  ExecutorOptions result;
  result.seed = options.seed;
  result.scale = options.scale;
  result.input_metas = [&stages](int stage, const Values& batch) {
    return stages.input_metas(stage, batch);
  };
  result.observers = {&outputs};
  result.observers.insert(result.observers.end(), observers.begin(), observers.end());
  return result;
}

}  // namespace

std::vector<Values> OutputWatch::take() {
  std::vector<Values> outputs;
  for (auto& [microbatch, values] : of_microbatch_) outputs.push_back(std::move(values));
  of_microbatch_.clear();
  return outputs;
}

void OutputWatch::produced(const Action& action, const Values& outputs,
                           std::vector<at::Tensor>& /*handed_on*/) {
  if (!is_on_ || action.kind != ActionKind::kForward) return;
  if (!flow_.is_last(action.stage, action.microbatch)) return;
  Values& kept = of_microbatch_[action.microbatch];
  for (const auto& [name, tensor] : outputs)
    kept.set(name, tensor.defined() ? tensor.detach() : tensor);
}

StepRunner::StepRunner(Program program, RankStages& stages,
                       const std::vector<SharedParameter>& parameters, Transport& transport,
                       const LossFunction& loss, const RunOptions& options,
                       const std::vector<ExecutorObserver*>& observers)
    : program_(proven(std::move(program))),
      outputs_(program_.flow),
      ops_(program_, parameters, transport.world()),
      executor_(program_, transport.rank(), stages.pointers(), transport, ops_, loss,
                executor_options(stages, options, outputs_, observers)) {
  ops_.watch(executor_);
}

StepResult StepRunner::run(const StepBatch& batch, const StepOptions& options) {
  outputs_.keep(options.outputs);
  executor_.run_step(batch);
  StepResult result = ops_.result();
  result.outputs = outputs_.take();
  return result;
}

}  // namespace sluice
