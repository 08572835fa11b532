// Operators by the names of an archive, and what sluice knows of some of them.
//
// Owns: from a target to an operator of LibTorch or one that was added, which operators draw, which
// arguments evaluation turns. Does not own: calling them (graph_call.h).
// Thread-safety: pure functions.
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
  std::optional<c10::OperatorHandle> op;  // where none was added
  bool is_found() const { return added || op; }
};

// target: "aten.linear.default". An operator of LibTorch is found if it has a row in the table
// (family/aten_table.h).
FoundOperator find_operator(std::string_view target, const std::vector<GraphOperator>& added);

// Whether the operator may draw random numbers, by its row or by the GraphOperator.
bool may_draw(std::string_view target, const std::vector<GraphOperator>& added);

// False where the written arguments say that nothing is drawn: dropout with a probability of 0, or
// not in training.
bool draws(const GraphCall& call);

// Turns the arguments that model.eval() has otherwise: dropout, attention's dropout, random leaky
// units, recurrent layers' dropout, batch and instance norm that keep running statistics. True:
// there was one.
bool turn_for_evaluation(GraphCall& call);

// The keys of a module's random nodes: the path of the module that they are in and their number
// among the random nodes of that path, in the order of the graph; so the same whichever nodes are
// in one program. By node; 0: not random.
std::unordered_map<int, std::uint64_t> random_names(const GraphModule& module,
                                                    const std::vector<GraphOperator>& added);

}  // namespace sluice::detail
