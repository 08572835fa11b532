// Where a thread's calls to the other members of a group come from: the instruction, the module
// and the number of the call in its layer, "1F3 layers.7.mlp.down_proj (5) over tp". Members
// compare it (group.h, invariant 4), people read it in errors and flight records.
//
// Owns: the text, and scopes that say where a thread is. Does not own: calls.
// Thread-safety: a scope belongs to the thread that entered it; what it is given must outlive it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "sluice/layer.h"

namespace sluice::detail {

struct CallPlace {
  std::string instruction;
  const std::string* layer = nullptr;
  const std::vector<ParameterInfo>* parameters = nullptr;  // of the chunk that has the layer
  const at::Tensor* weight = nullptr;                      // one of a module within the layer
  const std::string* of_forward = nullptr;  // numbered_place() of the call whose backward runs
  const char* axis = nullptr;
  int num_calls = 0;  // of this forward of the layer
};

// When it ends, the thread is where it was.
class PlaceScope {
 public:
  ~PlaceScope();
  PlaceScope(const PlaceScope&) = delete;
  PlaceScope& operator=(const PlaceScope&) = delete;

 protected:
  PlaceScope();
  CallPlace& here();

 private:
  const CallPlace outer_;
};

// An instruction that computes: "1F3"; or what else members reach together.
class InstructionPlace : public PlaceScope {
 public:
  explicit InstructionPlace(std::string instruction);
};

// A forward of a layer, whose calls are counted anew.
class LayerPlace : public PlaceScope {
 public:
  LayerPlace(const std::string& layer, const std::vector<ParameterInfo>& parameters);
};

// The module that has this weight, for calls of the same layer. A weight that is no parameter
// leaves the place as it was.
class WeightPlace {
 public:
  explicit WeightPlace(const at::Tensor& weight);
  ~WeightPlace();
  WeightPlace(const WeightPlace&) = delete;
  WeightPlace& operator=(const WeightPlace&) = delete;

 private:
  const at::Tensor* const outer_;
};

// A collective along an axis; of_forward: "", or where the forward was whose backward makes it.
class AxisPlace {
 public:
  AxisPlace(const char* axis, const std::string& of_forward);
  ~AxisPlace();
  AxisPlace(const AxisPlace&) = delete;
  AxisPlace& operator=(const AxisPlace&) = delete;

 private:
  const char* const outer_axis_;
  const std::string* const outer_of_forward_;
};

// "layers.7.mlp.down_proj (5)": the layer's next call; "" outside of a layer.
std::string numbered_place();
// The whole text for a call that is made now, which counts it; "" outside of instructions and
// layers.
std::string call_place();

}  // namespace sluice::detail
