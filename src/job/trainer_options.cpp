#include "job/trainer_options.h"

#include "job/model_options.h"

namespace sluice {

TrainerOptions trainer_options(const RunConfig& config) {
  TrainerOptions options;
  options.optimizer = config.optimizer;
  options.seed = static_cast<std::uint64_t>(config.training.seed);
  options.scale = config.parallelism.scale_grads;
  options.autocast = autocast_type(config);
  options.data_parallel = config.parallelism.pipeline.data_parallel;
  return options;
}

}  // namespace sluice
