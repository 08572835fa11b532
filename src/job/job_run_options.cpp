#include "job/job_run_options.h"

#include "job/model_options.h"

namespace sluice {

RunOptions run_options(const RunConfig& config) {
  RunOptions options;
  options.seed = static_cast<std::uint64_t>(config.training.seed);
  options.scale = config.parallelism.scale_grads;
  options.autocast = autocast_type(config);
  options.weights = InitialWeights::kNone;
  return options;
}

}  // namespace sluice
