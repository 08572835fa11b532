// One node of an exported graph as a step runs it: what it calls, where its arguments are.
//
// Owns: GraphCall, its arguments, and the frame in which calls of one run meet. Does not own: how a
// node becomes one (bind_arguments.h), in which order they run (graph_program.h).
//
// Every value of a program that is not constant has a slot of the frame: tensors, and symbolic
// numbers as int, double or bool.
// Thread-safety: a GraphCall is immutable once made; a frame belongs to one run.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "archive/exported_graph.h"
#include "graph/graph_program.h"

namespace sluice::detail {

struct GraphFrame {
  std::vector<c10::IValue> slots;
  torch::jit::Stack stack;  // of boxed calls
  c10::Device device = c10::kCPU;

  c10::IValue& at(int slot) { return slots[static_cast<std::size_t>(slot)]; }
};

// An argument in the type that the operator's schema asks for.
struct BoundArgument {
  enum class Kind : std::uint8_t {
    kConstant,  // `constant`
    kSlot,      // the slot as it is
    kWrapped,   // a number in a slot, as a tensor that takes part in arithmetic as a number
    kFloat,     // a number in a slot, as a double
    kDevice,    // that of the program
    kInts,      // `ints`, some of which are in slots
    kList,      // `elements`
  };
  enum class ListKind : std::uint8_t { kTensors, kOptionalTensors, kFloats, kBools, kNumbers };

  Kind kind = Kind::kConstant;
  ListKind list_kind = ListKind::kTensors;
  bool is_last_use = false;  // of kSlot: nothing reads the slot afterwards
  int slot = -1;
  c10::IValue constant;
  std::vector<std::int64_t> ints;                          // also of a constant list of ints
  std::vector<std::pair<std::size_t, int>> ints_in_slots;  // {position in `ints`, slot}
  std::vector<BoundArgument> elements;

  // The value, copied or, at its last use, taken out of its slot.
  c10::IValue take(GraphFrame& frame) const;
};

struct GraphCall;
using NumberFunction = c10::IValue (*)(const std::vector<c10::IValue>& arguments);

struct GraphCall {
  using Run = void (*)(const GraphCall&, GraphFrame&);
  using Check = void (*)(const GraphCall&, GraphFrame&);

  Run run = nullptr;
  Check check = nullptr;  // runs before; nullptr: LibTorch checks the arguments (call_checks.h)
  GraphNode::GradMode grad_mode = GraphNode::GradMode::kAsCaller;
  bool is_direct = false;  // reads its arguments in place, and leaves them in their slots
  bool is_random = false;
  std::uint64_t random_name = 0;  // hash of the key of its random numbers
  std::vector<BoundArgument> arguments;
  // Slots of its results, -1: not read by anything. A result that is a list has all of its slots
  // here, and how many they are in `list_sizes`; -1 there: no list.
  std::vector<int> results;
  std::vector<int> list_sizes;
  std::vector<int> releases;  // slots that nothing reads after this call
  // The strides that its tensor had at export; of as_strided() alone.
  std::optional<BoundArgument> exported_strides;
  // The operator that `run` calls.
  std::optional<c10::OperatorHandle> op;
  GraphOperator added;
  NumberFunction number = nullptr;
  // For messages.
  std::string target;
  std::string place;  // "node 'linear_3' of module 'model.layers.0.mlp' (modeling_llama.py:12)"
};

// A tensor without dimensions that takes part in arithmetic as the number that it holds.
at::Tensor wrapped_number(const c10::IValue& number);

// Ways to run a call. The first result in the slot that is given, the others behind it.
void run_boxed(const GraphCall& call, GraphFrame& frame);
// The written attention (archive/graph_rewrites.h), whose operands autocast casts as those of the
// operator that it stands for.
void run_written_attention(const GraphCall& call, GraphFrame& frame);
void run_added(const GraphCall& call, GraphFrame& frame);
void run_number(const GraphCall& call, GraphFrame& frame);

// Puts a result where it is read.
inline void set_result(const GraphCall& call, GraphFrame& frame, std::size_t number,
                       c10::IValue value) {
  const int slot = call.results[number];
  if (slot >= 0) frame.at(slot) = std::move(value);
}

}  // namespace sluice::detail
