#include "sluice/trainer.h"

#include <utility>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "comm/gather_messages.h"
#include "layer/autocast.h"
#include "plan/option_words.h"
#include "plan/trainable.h"
#include "sluice/error.h"
#include "train/pipeline_impl.h"
#include "train/step_checks.h"

namespace sluice {
namespace {

[[noreturn]] void refuse_trainer(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "Trainer", .remedy = remedy});
}

void require_free(const PipelineRank& rank) {
  if (rank.plan().options.step_end != StepEnd::kUpdate) {
    refuse_trainer("the plan's steps end with gradients, for the caller's optimizer",
                   "plan with PipelineOptions::step_end = StepEnd::kUpdate");
  }
  if (rank.update()) refuse_trainer("the pipeline has a trainer already", "make one trainer");
  if (rank.has_trained())
    refuse_trainer("the pipeline has made a training step already",
                   "make the trainer before the first step");
}

std::vector<std::pair<std::string, std::string>> texts_of(const OptimizerOptions& options) {
  return {{"kind", detail::word_of(detail::words_of(options.kind), options.kind)},
          {"lr", shortest(options.lr)},
          {"betas", shortest(options.betas[0]) + ", " + shortest(options.betas[1])},
          {"eps", shortest(options.eps)},
          {"weight_decay", shortest(options.weight_decay)},
          {"no_decay", "'" + join(options.no_decay, "', '") + "'"},
          {"max_norm", shortest(options.max_norm)},
          {"momentum", shortest(options.momentum)}};
}

void require_matching(const Group& world, const OptimizerOptions& options) {
  const auto own = texts_of(options);
  std::vector<std::string> values, first;
  for (const auto& [option, value] : own) values.push_back(value);
  int rank = 0;
  for (Unpacker& of_rank :
       gather_messages(world, Packer().add(values), "options of the optimizers")) {
    const auto theirs = of_rank.take<std::vector<std::string>>();
    of_rank.finish();
    if (rank == 0) first = theirs;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (theirs.at(i) == first.at(i)) continue;
      refuse_trainer(formatted("`OptimizerOptions::{}` is {} on rank 0, but {} on rank {}",
                               own[i].first, first[i], theirs[i], rank),
                     "give every rank the same options");
    }
    ++rank;
  }
}

}  // namespace

struct Trainer::Impl {
  Pipeline::Impl& pipeline;
  TrainersUpdate update;

  Impl(Pipeline::Impl& of, const OptimizerOptions& options)
      : pipeline(of), update(options, of.share) {
    pipeline.rank.set_update(&update);
  }
  ~Impl() { pipeline.rank.set_update(nullptr); }
};

Trainer::Trainer(Pipeline& pipeline, const OptimizerOptions& given) {
  OptimizerOptions options = given;
  pipeline.impl_->abort_on_error("Trainer", [&] {
    require_free(pipeline.impl_->rank);
    require_matching(pipeline.impl_->world, given);
    options.no_decay = detail::no_decay_patterns(pipeline.impl_->rank.plan().model, given.no_decay);
  });
  impl_ = std::make_unique<Impl>(*pipeline.impl_, options);
}
Trainer::~Trainer() = default;

StepResult Trainer::step(const Inputs& inputs, double learning_rate, const StepOptions& options) {
  Pipeline::Impl& pipeline = impl_->pipeline;
  return pipeline.abort_on_error("Trainer::step", [&] {
    require_something_trains(pipeline.share);
    const AutocastScope autocast(pipeline.rank.options().autocast);
    const StepBatch batch =
        pipeline.training_batch(inputs, options, "Trainer::step",
                                "Trainer::step at the learning rate " + shortest(learning_rate));
    impl_->update.set_learning_rate(learning_rate);
    return pipeline.rank.train(batch, options);
  });
}

StepResult Trainer::step(const StepBatch& batch, double learning_rate) {
  impl_->pipeline.abort_on_error("Trainer::step", [&] {
    require_counted(batch, "no label of the step's batch is counted",
                    "give every step at least one label that counts");
  });
  impl_->update.set_learning_rate(learning_rate);
  impl_->pipeline.step = batch.step;
  return impl_->pipeline.rank.train(batch, {});
}

const Optimizer& Trainer::optimizer() const { return impl_->update.optimizer(); }
std::optional<std::int64_t> Trainer::weights_step() const { return impl_->update.weights_step(); }

}  // namespace sluice
