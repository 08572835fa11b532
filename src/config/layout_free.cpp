#include "config/layout_free.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "config/batch_sizes.h"
#include "config/origins.h"
#include "plan/data_parallel.h"
#include "plan/divided_layers.h"
#include "plan/slices.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

constexpr const char* kLayoutFree = "training.layout_free";
constexpr const char* kShardsKey = "parallelism.data_parallel_shards";
constexpr const char* kDataDegree = "parallelism.data_parallel_degree";
constexpr const char* kTensorDegree = "parallelism.tensor_parallel_degree";

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= number; ++d)
    if (number % d == 0) divisors.push_back(d);
  return divisors;
}

// For example "1, 2 or 4".
std::string alternatives(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text += i + 1 == numbers.size() ? " or " : ", ";
    text += std::to_string(numbers[i]);
  }
  return text;
}

void require_divisor(const RunConfig& config, const std::string& key, std::int64_t degree) {
  const std::int64_t all = config.training.layout_free;
  if (degree >= 1 && all % degree == 0) return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("{} = {} does not divide {} = {}", key, degree, kLayoutFree, all),
               .where = config.origins.at(is_set(config, key) ? key : kLayoutFree),
               .remedy = "write " + alternatives(divisors_of(all))});
}

void refuse_contradiction(const RunConfig& config, const std::string& key, bool contradicts,
                          const std::string& reason) {
  if (!contradicts) return;
  throw Error(ErrorKind::kUsage,
              {.what = key + " and " + kLayoutFree + " exclude each other, " + "since " + reason,
               .where = config.origins.at(key),
               .remedy = "keep one of them"});
}

std::vector<std::int64_t> degrees_that_share(int slices) {
  std::vector<std::int64_t> degrees = divisors_of(slices);
  std::erase_if(degrees,
                [&](std::int64_t degree) { return !may_share(static_cast<int>(degree), slices); });
  return degrees;
}

}  // namespace

void fix_shards(RunConfig& config) {
  const std::int64_t all = config.training.layout_free;
  if (all == 0) return;
  PipelineOptions& pipeline = config.parallelism.pipeline;
  DataParallel& replicas = pipeline.data_parallel;
  refuse_contradiction(config, kShardsKey, replicas.shards > 0,
                       "both set the shards of the gradients");
  refuse_contradiction(config, "parallelism.tensor_parallel_slices",
                       pipeline.tensor_parallel.slices > 0, "both set the slices of the layers");
  refuse_contradiction(config, "parallelism.reduction", replicas.reduction == Reduction::kFast,
                       "\"fast\" sums depend on the number of replicas");
  refuse_contradiction(config, "parallelism.reduce_grad_per_microbatch", replicas.per_microbatch,
                       "sums after every microbatch depend on the number of replicas");
  refuse_contradiction(config, "parallelism.expert_parallel_degree",
                       pipeline.expert_parallel.degree > 1,
                       "an expert adds up the tokens of all replicas that share it");
  require_divisor(config, kDataDegree, replicas.degree);
  require_divisor(config, kTensorDegree, pipeline.tensor_parallel.degree);
  const std::int64_t microbatches =
      std::int64_t{batch_sizes(config).num_microbatches} * replicas.degree;
  replicas.shards = static_cast<int>(std::gcd(all, microbatches));
  config.origins[kShardsKey] = kLayoutFree;
}

int most_slices(const RunConfig& config, const ModelSpec& model) {
  std::int64_t slices = config.training.layout_free;
  if (slices == 0 || !reason_not_divided(model).empty()) return 0;
  for (const LayerInfo& layer : model.layers) {
    for (const ParameterSpec& parameter : layer.parameters)
      if (parameter.split && parameter.split->units > 0)
        slices = std::gcd(slices, parameter.split->units);
  }
  // Returns 0 if the degree does not fit the slices, which the planner reports.
  const int degree = config.parallelism.pipeline.tensor_parallel.degree;
  return may_share(degree, static_cast<int>(slices)) ? static_cast<int>(slices) : 0;
}

RunConfig with_slices(RunConfig config, int slices) {
  config.parallelism.pipeline.tensor_parallel.slices = slices;
  return config;
}

std::string layout_invariance_text(const RunConfig& config, const Plan& plan) {
  std::vector<std::string> same = {"any pipeline_parallel_degree and schedule but LoopedBFS"},
                           other;
  const DataParallel& replicas = plan.options.data_parallel;
  if (sums_in_shards(replicas) && replicas.shards > 0) {
    same.push_back("data_parallel_degree " + alternatives(divisors_of(replicas.shards)));
  } else {
    other.emplace_back("data_parallel_degree");
  }
  if (reason_not_divided(plan.model).empty()) {
    const TensorParallel& shares = plan.options.tensor_parallel;
    if (shares.slices > 0) {
      same.push_back("tensor_parallel_degree " + alternatives(degrees_that_share(shares.slices)));
    } else {
      other.emplace_back("tensor_parallel_degree");
    }
  }
  std::string text = "bits: the same for " + join(same, ", ");
  if (other.empty()) return text;
  text += "; another " + join(other, " or ") + " changes the bits";
  if (config.training.layout_free == 0 && replicas.reduction == Reduction::kExact)
    text += formatted(" ({} = N keeps them for degrees that divide N)", kLayoutFree);
  return text;
}

}  // namespace sluice::detail
