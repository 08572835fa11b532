// A model that is cut into stages, whose number and places come first.
//
// Owns: which options go together, how many stages there are, which rank has which, and the
// Partition of given cuts. Does not own: the order in which cuts are tried (cut_order.h).
// Thread-safety: const after construction.
#pragma once

#include <string>
#include <vector>

#include "plan/partition/convention.h"
#include "plan/partition/cut_order.h"
#include "sluice/partition.h"

namespace sluice::detail {

enum class CutBy {
  kRule,   // counts, or the names in the options
  kCosts,  // what layers take
};

class Cutting {
 public:
  // Counts the stages and places them. Refers to the model. Throws Error(kUsage) as
  // make_partition(); with kCosts also for options that say where to cut.
  Cutting(const ModelSpec& model, const PartitionOptions& options, CutBy by);

  const StageMap& stage_map() const { return stage_map_; }

  // Precondition: kRule.
  Partition by_rule() const;
  // costs: of every layer of the model, all that it takes of a rank's step, in any unit. Throws
  // Error(kUsage) for costs of another number of layers, and for stages that cannot be filled.
  SplitProblem problem(const std::vector<double>& costs) const;
  // starts: first layer of every stage, of a cut of problem().
  Partition at(const std::vector<int>& starts) const;
  // The same with layers and backwards of the stages alone.
  Partition outline(const std::vector<int>& starts) const;

 private:
  Partition partition_of(Split split) const;

  const ModelSpec& model_;
  PartitionOptions options_;
  const ConventionRules& convention_;
  std::vector<std::string> notes_;  // options that gave way to others
  Split rule_;
  StageMap stage_map_;
};

// The split with which the slowest rank is as fast as it can be. Throws as Cutting.
Partition split_by_costs(const ModelSpec& model, const PartitionOptions& options,
                         const std::vector<double>& costs);

}  // namespace sluice::detail
