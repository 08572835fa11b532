#include "sluice/trainer.h"

#include "base/text.h"
#include "run/autocast.h"
#include "sluice/error.h"
#include "train/pipeline_impl.h"
#include "train/step_checks.h"

namespace sluice {
namespace {

[[noreturn]] void refuse_trainer(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "Trainer", .remedy = remedy});
}

void require_free(const Engine& engine) {
  if (engine.plan().step_end != StepEnd::kUpdate) {
    refuse_trainer("the plan's steps end with gradients, for an optimizer of the caller's",
                   "plan with PipelineOptions::step_end = StepEnd::kUpdate");
  }
  if (engine.update()) refuse_trainer("the pipeline has a trainer already", "make one");
  if (engine.has_trained())
    refuse_trainer("the pipeline has made a training step already", "make the trainer before");
}

}  // namespace

struct Trainer::Impl {
  Pipeline::Impl& pipeline;
  StepUpdate update;

  Impl(Pipeline::Impl& of, const OptimizerOptions& options)
      : pipeline(of), update(options, of.engine.rank()) {
    pipeline.engine.set_update(&update);
  }
  ~Impl() { pipeline.engine.set_update(nullptr); }
};

Trainer::Trainer(Pipeline& pipeline, const OptimizerOptions& options) {
  require_free(pipeline.impl_->engine);
  impl_ = std::make_unique<Impl>(*pipeline.impl_, options);
}
Trainer::~Trainer() = default;

StepResult Trainer::step(const Inputs& inputs, double learning_rate, const StepOptions& options) {
  Pipeline::Impl& pipeline = impl_->pipeline;
  return pipeline.waking_others("Trainer::step", [&] {
    require_something_trains(pipeline.engine.rank());
    const AutocastScope autocast(pipeline.engine.options().autocast);
    const StepBatch batch =
        pipeline.training_batch(inputs, options, "Trainer::step",
                                "Trainer::step at the learning rate " + shortest(learning_rate));
    impl_->update.set_learning_rate(learning_rate);
    return pipeline.engine.train(batch, options);
  });
}

StepResult Trainer::step(const StepBatch& batch, double learning_rate) {
  impl_->pipeline.waking_others("Trainer::step", [&] {
    require_counted(batch, "no label of the step's batch is counted",
                    "give every step at least one label that counts");
  });
  impl_->update.set_learning_rate(learning_rate);
  impl_->pipeline.step = batch.step;
  return impl_->pipeline.engine.train(batch, {});
}

const Optimizer& Trainer::optimizer() const { return impl_->update.optimizer(); }
std::optional<std::int64_t> Trainer::weights_step() const { return impl_->update.weights_step(); }

}  // namespace sluice
