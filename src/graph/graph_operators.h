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

// Looks in `added`, then in LibTorch if family/aten_table.h allows it.
FoundOperator find_operator(std::string_view target, const std::vector<GraphOperator>& added);

bool may_draw(std::string_view target, const std::vector<GraphOperator>& added);

// False if constant arguments rule out random numbers, as for dropout outside training.
bool draws(const GraphCall& call);

// Changes arguments as model.eval() does. Returns true if it changed any.
bool switch_to_evaluation(GraphCall& call);

// Node that draws random numbers -> their key. It depends on the module's path and on the node's
// position among such nodes there, but not on the division of the graph.
std::unordered_map<int, std::uint64_t> random_names(const GraphModule& module,
                                                    const std::vector<GraphOperator>& added);

}  // namespace sluice::detail
