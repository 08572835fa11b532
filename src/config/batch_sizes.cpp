#include "config/batch_sizes.h"

#include "plan/data_parallel.h"

namespace sluice {

BatchSizes batch_sizes(const RunConfig& config) {
  const TrainingOptions& training = config.training;
  const std::int64_t replicas = config.parallelism.pipeline.data_parallel.degree;
  BatchSizes sizes;
  sizes.local_batch = training.global_batch_size > 0 ? training.global_batch_size / replicas
                                                     : training.local_batch_size;
  sizes.global_batch = sizes.local_batch * replicas;
  sizes.num_microbatches = static_cast<int>(sizes.local_batch / training.microbatch_size);
  return sizes;
}

RunConfig as_one_replica(RunConfig config) {
  DataParallel& replicas = config.parallelism.pipeline.data_parallel;
  TensorParallel& shares = config.parallelism.pipeline.tensor_parallel;
  if (shares.slices > 0 || config.training.layout_free > 0) shares.degree = 1;
  config.training.local_batch_size = batch_sizes(config).global_batch;
  config.training.global_batch_size = 0;
  if (!detail::sums_in_shards(replicas)) {
    if (replicas.degree == 1) replicas = {};
    return config;
  }
  const int shards = replicas.num_shards();
  replicas.shards = shards > 1 ? shards : 0;
  replicas.degree = 1;
  replicas.per_microbatch = false;
  return config;
}

}  // namespace sluice
