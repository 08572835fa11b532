#include "plan/data_parallel.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <tuple>

#include "base/nearest_name.h"
#include "base/text.h"
#include "plan/neighbours.h"
#include "plan/passes/passes.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

// No machine is this large. The limit keeps loops over replicas fast.
constexpr int kMostReplicas = 65536;

constexpr const char* kDegree = "`data_parallel.degree`";
constexpr const char* kShards = "`data_parallel.shards`";
constexpr const char* kZero3 = "`data_parallel.zero3`";
constexpr const char* kPerMicrobatch = "`data_parallel.per_microbatch`";

[[noreturn]] void refuse(const std::string& what, const std::string& where,
                         const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = where, .remedy = remedy});
}

std::string setting(const std::string& option, std::int64_t value) {
  return option + " = " + std::to_string(value);
}

void require_degree(int degree) {
  if (degree < 1) refuse(setting(kDegree, degree), kDegree, "give at least 1");
  if (degree > kMostReplicas) {
    refuse(setting(kDegree, degree) + " is more replicas than sluice supports", kDegree,
           "give at most " + std::to_string(kMostReplicas));
  }
}

void require_shards(const DataParallel& options, int num_microbatches) {
  const int shards = options.num_shards();
  if (options.shards < 0) {
    refuse(setting(kShards, options.shards), kShards,
           "give 0 for as many shards as replicas, or more");
  }
  if (shards > kMostReplicas) {
    refuse(setting(kShards, shards) + " is more shards than sluice supports", kShards,
           "give at most " + std::to_string(kMostReplicas));
  }
  if (!sums_in_shards(options)) return;
  if (shards % options.degree != 0) {
    refuse(setting(kShards, shards) + " is not a multiple of " + setting(kDegree, options.degree),
           kShards, "the nearest is " + nearest_multiples(shards, options.degree));
  }
  const int each = shards / options.degree;
  if (num_microbatches % each != 0) {
    refuse(
        setting(kShards, shards) + " does not divide the " +
            std::to_string(std::int64_t{num_microbatches} * options.degree) +
            " microbatches of all replicas",
        kShards,
        "the nearest is " + nearest_multiples(num_microbatches, each) + " microbatches a replica");
  }
}

bool holds_microbatch_reduction(const Program& program) {
  return std::any_of(program.ranks.begin(), program.ranks.end(), [](const auto& row) {
    return std::any_of(row.begin(), row.end(), [](const Action& action) {
      return action.kind == ActionKind::kReduceGrad && action.microbatch >= 0;
    });
  });
}

void require_own_collectives(const Schedule& schedule, const DataParallel& options) {
  const auto refuse_own = [](const std::string& holds, const std::string& remedy) {
    refuse("the schedule holds " + holds, "`schedule.own`",
           "set " + remedy + ", or leave these actions out of the schedule");
  };
  if (options.degree == 1) return;
  const Program program = to_program(schedule);
  if (holds(program, ActionKind::kUnshard) && !options.zero3) {
    refuse_own("UNSHARD, but parameters are not sharded", std::string(kZero3) + " = true");
  }
  if (!holds(program, ActionKind::kReduceGrad)) return;
  const bool single = holds_microbatch_reduction(program);
  if (single == options.per_microbatch) return;
  refuse_own(single ? "REDUCE_GRAD of single microbatches, not of the step"
                    : "REDUCE_GRAD once a step, not by microbatch",
             std::string(kPerMicrobatch) + " = " + (single ? "true" : "false"));
}

std::vector<std::string> notes_of_replicas(const DataParallel& options) {
  if (sums_in_shards(options) || options.shards == 0) return {};
  const bool fast = options.reduction == Reduction::kFast;
  return {
      setting(kShards, options.shards) + " has no meaning: " +
      (fast ? "the transport adds up in its own order" : "every microbatch is reduced by itself")};
}

std::vector<std::string> all_orders() {
  std::vector<std::string> orders = {"pp,dp", "dp,pp"};
  std::vector<std::string> words = {"cp", "dp", "pp", "tp"};
  do orders.push_back(join(words, ","));
  while (std::next_permutation(words.begin(), words.end()));
  return orders;
}

Mesh::Order axes_in_order(const std::string& rank_order) {
  const std::string all = rank_order + (rank_order.size() == 5 ? ",cp,tp" : "");
  std::vector<Axis> axes;
  for (const std::string& word : split(all, ',')) {
    if (word == "pp") axes.push_back(Axis::kPp);
    if (word == "dp") axes.insert(axes.end(), {Axis::kDpReplicate, Axis::kDpShard});
    if (word == "cp") axes.push_back(Axis::kCp);
    if (word == "tp") axes.push_back(Axis::kTp);
  }
  std::set<Axis> distinct(axes.begin(), axes.end());
  constexpr std::size_t kNumAxes = std::tuple_size_v<Mesh::Order>;
  if (axes.size() != kNumAxes || distinct.size() != kNumAxes || all.size() != 11) {
    refuse("`rank_order` = \"" + rank_order + "\" is not an order of ranks", "`rank_order`",
           "name pp, dp, cp and tp, each once; " + suggest_name(rank_order, all_orders()));
  }
  Mesh::Order order{};
  std::copy(axes.begin(), axes.end(), order.begin());
  return order;
}

}  // namespace

std::string nearest_multiples(std::int64_t value, std::int64_t step) {
  const std::int64_t below = value / step * step;
  return (below > 0 ? std::to_string(below) + " or " : std::string()) +
         std::to_string(below + step);
}

bool sums_in_shards(const DataParallel& options) {
  const bool reduces_single = options.per_microbatch && options.degree > 1;
  return options.reduction == Reduction::kExact && !reduces_single;
}

void require_replicas(const DataParallel& options, int num_microbatches) {
  require_degree(options.degree);
  // ZeRO-3 reduces accumulated gradients once per step. Reducing those of each microbatch would
  // save no memory and multiply the traffic.
  if (options.zero3 && options.per_microbatch) {
    refuse(std::string(kZero3) + " and " + kPerMicrobatch + " exclude each other", kPerMicrobatch,
           "reduce once a step where parameters are sharded");
  }
  require_shards(options, num_microbatches);
}

std::vector<std::string> check_data_parallel(const DataParallel& options, const Schedule& schedule,
                                             bool is_own_schedule) {
  require_replicas(options, schedule.num_microbatches);
  if (is_own_schedule) require_own_collectives(schedule, options);
  return notes_of_replicas(options);
}

Mesh mesh_of(int num_ranks, const DataParallel& options, const std::string& rank_order,
             const TensorParallel& shares, const ExpertParallel& experts) {
  const Mesh::Order order = axes_in_order(rank_order);
  const std::int64_t replicas = std::int64_t{num_ranks} * options.degree;
  const bool fits = replicas <= std::numeric_limits<int>::max() / shares.degree;
  if (!fits) {
    refuse(counted(options.degree, "replica") + " of " + counted(num_ranks, "rank") +
               (shares.degree > 1 ? " with " + counted(shares.degree, "share") : "") + " are " +
               with_commas(replicas * shares.degree) + " ranks, more than sluice supports",
           kDegree, "make one of these numbers smaller");
  }
  MeshSizes sizes{.pp = num_ranks};
  (options.zero3 ? sizes.dp_shard : sizes.dp_replicate) = options.degree;
  sizes.tp = shares.degree;
  sizes.ep = experts.degree;
  const int num_axes = (num_ranks > 1) + (options.degree > 1) + (shares.degree > 1);
  return num_axes < 2 ? Mesh(sizes) : Mesh(sizes, order);
}

std::int64_t ranks_of_run(const PipelineOptions& options) {
  return std::int64_t{options.num_ranks.value_or(1)} * options.data_parallel.degree *
         options.tensor_parallel.degree;
}

void set_lowering(const DataParallel& options, LowerOptions& lowering) {
  if (options.degree == 1) return;
  lowering.shard_parameters = options.zero3;
  lowering.reduce_gradients = true;
  lowering.reduce_per_microbatch = options.per_microbatch;
}

}  // namespace sluice::detail
