#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph_call.h"

namespace sluice::detail {

struct FoundOperator {
  const GraphOperator* added = nullptr;
  std::optional<c10::OperatorHandle> op;
  bool is_found() const { return added || op; }
};

// Looks in `added`, then among LibTorch's operators that family/aten_table.h allows.
FoundOperator find_operator(std::string_view target, const std::vector<GraphOperator>& added);

bool may_draw(std::string_view target, const std::vector<GraphOperator>& added);

// Returns false if constant arguments rule out that the call draws random numbers, as for dropout
// outside training.
bool draws(const GraphCall& call);

// Changes arguments such as dropout's `train` as model.eval() does. Returns true if it changed any.
bool switch_to_evaluation(GraphCall& call);

// Returns the key of the random numbers of each node that draws some, by node. It depends on the
// module's path and on the node's position among such nodes there, but not on the division of the
// graph into layers.
std::unordered_map<int, std::uint64_t> random_names(const GraphModule& module,
                                                    const std::vector<GraphOperator>& added);

}  // namespace sluice::detail
