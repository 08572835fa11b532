// Nodes of an exported graph, prepared to run.
//
// Invariants:
// 1. Results do not depend on which nodes are in one program. Random numbers are keyed by
//    random_names() and the seed, step and microbatch of the scope (keyed_stream.h). Outside a
//    scope, nodes draw from the default generator in order, as in Python.
// 2. A value is released after its last use.
// 3. Nodes do not run if sizes give their results.
// 4. A device in the graph becomes that of the first held tensor, or else of the first tensor read.
// 5. In-place nodes write to the caller's tensors. A recomputed layer runs again on copies of its
//    buffers (recomputation.h), so running statistics change once per microbatch.
//
// Threads may call run() at once.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "archive/exported_graph.h"
#include "sluice/model.h"

namespace sluice::detail {

struct GraphCall;
class GraphSizes;

// Shared by all programs of a module. Vectors are indexed by graph value.
struct GraphModuleFacts {
  std::unordered_map<int, std::uint64_t> random_names;
  std::vector<bool> is_read;                // a node or result reads it
  std::vector<const GraphInput*> input_of;  // nullptr if a node writes it
};
GraphModuleFacts facts_of(const GraphModule& module, const std::vector<GraphOperator>& operators);

class GraphProgram {
 public:
  // run() reads `reads` (from the batch or other programs) and `held` (parameters, buffers and
  // constants), and returns `writes`. Symbolic numbers there are one-element tensors. `nodes` are
  // ascending. `operators` override LibTorch's. Throws Error(kInput) for an unknown operator or
  // unsuitable argument.
  GraphProgram(const GraphModule& module, const std::vector<int>& nodes,
               const std::vector<int>& reads, const std::vector<int>& held,
               const std::vector<int>& writes, const std::vector<GraphOperator>& operators);
  GraphProgram(const GraphModule& module, const std::vector<int>& nodes,
               const std::vector<int>& reads, const std::vector<int>& held,
               const std::vector<int>& writes, const std::vector<GraphOperator>& operators,
               const GraphModuleFacts& facts);
  ~GraphProgram();
  GraphProgram(GraphProgram&&) noexcept;
  GraphProgram& operator=(GraphProgram&&) noexcept;

  struct Mode {
    // If false, the program behaves as after model.eval().
    bool training = true;
  };
  // Throws Error(kInput) with the node's place for unsupported sizes and for a failing node.
  // LibTorch's out-of-memory exceptions pass unchanged.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& read,
                              const std::vector<at::Tensor>& held, const Mode& mode) const;

  std::size_t num_calls() const;

 private:
  friend class GraphProgramBuilder;

  struct Known {  // a number that follows from sizes
    int slot = 0;
    std::size_t number = 0;  // in GraphSizes::numbers()
  };

  const std::vector<GraphCall>& calls(const Mode& mode) const;

  std::vector<GraphCall> calls_;
  std::vector<GraphCall> evaluation_calls_;  // empty if the same
  std::unique_ptr<GraphSizes> sizes_;
  std::size_t num_slots_ = 0;
  std::vector<int> read_slots_;    // -1 if unused
  std::vector<bool> read_number_;  // is a symbolic number
  std::vector<int> held_slots_;
  std::vector<Known> known_;
  std::vector<int> write_slots_;
};

}  // namespace sluice::detail
