// A node of an exported graph, ready to run. It is immutable. Each run has its own frame, with a
// slot for every value that is not constant: tensors, and symbolic numbers as int, double or bool.
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
  torch::jit::Stack stack;
  c10::Device device = c10::kCPU;

  c10::IValue& at(int slot) { return slots[static_cast<std::size_t>(slot)]; }
};

struct BoundArgument {
  enum class Kind : std::uint8_t {
    kConstant,
    kSlot,
    kWrapped,  // number, by wrapped_number()
    kFloat,    // number, as a double
    kDevice,
    kInts,  // `ints`, some from slots
    kList,
  };
  enum class ListKind : std::uint8_t { kTensors, kOptionalTensors, kFloats, kBools, kNumbers };

  Kind kind = Kind::kConstant;
  ListKind list_kind = ListKind::kTensors;
  bool is_last_use = false;  // no later argument reads the slot
  int slot = -1;
  c10::IValue constant;
  std::vector<std::int64_t> ints;
  std::vector<std::pair<std::size_t, int>> ints_in_slots;  // (position in `ints`, slot)
  std::vector<BoundArgument> elements;

  // Copies the value, or moves it out of its slot at its last use.
  c10::IValue take(GraphFrame& frame) const;
};

struct GraphCall;
using NumberFunction = c10::IValue (*)(const std::vector<c10::IValue>& arguments);

struct GraphCall {
  using Run = void (*)(const GraphCall&, GraphFrame&);
  using Check = void (*)(const GraphCall&, GraphFrame&);

  Run run = nullptr;
  Check check = nullptr;  // runs first; nullptr if LibTorch checks enough
  GraphNode::GradMode grad_mode = GraphNode::GradMode::kAsCaller;
  bool is_direct = false;  // leaves arguments in their slots
  bool is_random = false;
  std::uint64_t random_name = 0;
  std::vector<BoundArgument> arguments;
  // Slot of each result, -1 if no node reads it. A list has a slot per tensor, and its length in
  // `list_sizes`, where other results have -1.
  std::vector<int> results;
  std::vector<int> list_sizes;
  std::vector<int> releases;  // slots that no later call reads
  std::optional<BoundArgument> exported_strides;
  std::optional<c10::OperatorHandle> op;
  GraphOperator added;
  NumberFunction number = nullptr;
  std::string target;
  std::string place;
};

// A 0-dimensional tensor with the type promotion of a Python number.
at::Tensor wrapped_number(const c10::IValue& number);

void run_boxed(const GraphCall& call, GraphFrame& frame);
// The attention of plain operators (archive/graph_rewrites.h), with the exported operator's
// autocast.
void run_math_attention(const GraphCall& call, GraphFrame& frame);
void run_added(const GraphCall& call, GraphFrame& frame);
void run_number(const GraphCall& call, GraphFrame& frame);

inline void set_result(const GraphCall& call, GraphFrame& frame, std::size_t number,
                       c10::IValue value) {
  const int slot = call.results[number];
  if (slot >= 0) frame.at(slot) = std::move(value);
}

}  // namespace sluice::detail
