// Cuts a model into stages and places them on ranks.
#pragma once

#include <string>
#include <vector>

#include "plan/partition/convention.h"
#include "plan/partition/cut_order.h"
#include "sluice/partition.h"

namespace sluice::detail {

enum class CutBy {
  kRule,   // by the counts or names in the options
  kCosts,  // to balance the layers' costs
};

class Cutting {
 public:
  // Keeps a reference to the model. Throws make_partition()'s errors, and for kCosts also
  // Error(kUsage) if the options name cuts.
  Cutting(const ModelSpec& model, const PartitionOptions& options, CutBy by);

  const StageMap& stage_map() const { return stage_map_; }

  // Precondition: constructed with CutBy::kRule.
  Partition by_rule() const;
  // `costs` has each layer's share of the step time, in any unit. Throws Error(kUsage) if the
  // number of costs is wrong or a stage would stay empty.
  SplitProblem problem(const std::vector<double>& costs) const;
  Partition at(const std::vector<int>& starts) const;
  // Like at(), but sets only StageContent's layers and backward.
  Partition outline(const std::vector<int>& starts) const;

 private:
  Partition partition_of(Split split) const;

  const ModelSpec& model_;
  PartitionOptions options_;
  const ConventionRules& convention_;
  std::vector<std::string> notes_;
  Split rule_;
  StageMap stage_map_;
};

// Minimizes the load of the slowest rank. Throws the errors of Cutting and problem().
Partition split_by_costs(const ModelSpec& model, const PartitionOptions& options,
                         const std::vector<double>& costs);

}  // namespace sluice::detail
