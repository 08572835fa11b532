// Some nodes of an exported graph, ready to run: a step reads no text of the archive.
//
// Owns: operators resolved by name, arguments bound to slots, last uses, the keys of random nodes,
// what evaluation turns, symbolic numbers. Does not own: which nodes belong together and what
// crosses between them (archive), parameters and buffers (the caller's modules), rules that the
// sizes of a batch have to keep (check_rules.h).
//
// Invariants:
//  1. Numbers do not depend on which nodes a program has: every node that draws has random numbers
//     of its own, by its module's path and its number among the random nodes of that path, under
//     the seed, step and microbatch of the scope in which the program runs (keyed_stream.h).
//     Outside of any scope nodes draw from the default generator, in order, as in Python.
//  2. A value is let go with its last use.
//  3. Symbolic numbers whose expression follows from the sizes of what is read are computed from
//     it: their nodes do not run.
//  4. Device literals follow the parameters: what is made anew is on the device of the first tensor
//     that is held, else of the first that is read.
//  5. What writes in place writes to the tensors that it is given. A layer that runs a second time
//     for its backward has copies of its module's buffers then (recomputation.h): running
//     statistics that are buffers of the layer's module change once a microbatch.
// Thread-safety: run() is const and may be called from several threads at once.
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

// Facts that all programs of a module share, so that making a program takes time in proportion to
// its own nodes.
struct GraphModuleFacts {
  std::unordered_map<int, std::uint64_t> random_names;  // as random_names() (graph_operators.h)
  std::vector<bool> is_read;                            // by value: a node or a result reads it
  std::vector<const GraphInput*> input_of;              // by value; nullptr: a node writes it
};
GraphModuleFacts facts_of(const GraphModule& module, const std::vector<GraphOperator>& operators);

class GraphProgram {
 public:
  // reads: values that are given (inputs of the batch, what crosses); held: parameters, buffers and
  // constants; writes: values that are returned. A symbolic number that is read or written is a
  // tensor of one element there. nodes: in ascending order. An operator of `operators` comes before
  // one of LibTorch with the same name.
  // Throws Error(kInput) for an operator that is in neither, naming target, node and module, and
  // for an argument that does not fit the operator's schema; Error(kInternal) for a value that
  // neither is given nor comes from an earlier node.
  GraphProgram(const GraphModule& module, const std::vector<int>& nodes,
               const std::vector<int>& reads, const std::vector<int>& held,
               const std::vector<int>& writes, const std::vector<GraphOperator>& operators);
  // For callers that make several programs of one module.
  GraphProgram(const GraphModule& module, const std::vector<int>& nodes,
               const std::vector<int>& reads, const std::vector<int>& held,
               const std::vector<int>& writes, const std::vector<GraphOperator>& operators,
               const GraphModuleFacts& facts);
  ~GraphProgram();
  GraphProgram(GraphProgram&&) noexcept;
  GraphProgram& operator=(GraphProgram&&) noexcept;

  struct Mode {
    // Else dropout, attention's dropout and batch norm are turned as model.eval() does, and
    // counters of batches stay.
    bool training = true;
  };
  // Throws Error(kInput) for a tensor that is read with other sizes than the graph was exported
  // for, and for a node that fails, with its place; what LibTorch throws for want of memory passes.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& read,
                              const std::vector<at::Tensor>& held, const Mode& mode) const;

  // Nodes that run, without those that sizes give.
  std::size_t num_calls() const;

 private:
  friend class GraphProgramBuilder;

  struct Known {  // a number that follows from the sizes of what is read
    int slot = 0;
    std::size_t number = 0;  // of GraphSizes
  };

  const std::vector<GraphCall>& calls(const Mode& mode) const;

  std::vector<GraphCall> calls_;
  std::vector<GraphCall> evaluation_calls_;  // empty: the same
  std::unique_ptr<GraphSizes> sizes_;
  std::size_t num_slots_ = 0;
  std::vector<int> read_slots_;    // -1: nothing reads it
  std::vector<bool> read_number_;  // a symbolic number, in a tensor
  std::vector<int> held_slots_;
  std::vector<Known> known_;
  std::vector<int> write_slots_;
};

}  // namespace sluice::detail
