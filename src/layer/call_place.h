// Names the place of a collective: instruction, module and number of the call, as in "1F3
// layers.7.mlp.down_proj (5) over tp". Members compare it (group.h), and errors show it. Scopes
// belong to their thread. Their arguments must outlive them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "sluice/layer.h"

namespace sluice::detail {

struct CallPlace {
  std::string instruction;
  const std::string* layer = nullptr;
  const std::vector<ParameterInfo>* parameters = nullptr;
  const at::Tensor* weight = nullptr;
  const std::string* of_forward = nullptr;  // in a backward: the forward call's numbered_place()
  const char* axis = nullptr;
  int num_calls = 0;
};

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

// Scope of an instruction ("1F3") or of another point that all members reach.
class InstructionPlace : public PlaceScope {
 public:
  explicit InstructionPlace(std::string instruction);
};

// Scope of a layer's forward, which numbers its calls from the start.
class LayerPlace : public PlaceScope {
 public:
  LayerPlace(const std::string& layer, const std::vector<ParameterInfo>& parameters);
};

// Adds the module that has this weight. No effect if the weight is not a parameter of the layer.
class WeightPlace {
 public:
  explicit WeightPlace(const at::Tensor& weight);
  ~WeightPlace();
  WeightPlace(const WeightPlace&) = delete;
  WeightPlace& operator=(const WeightPlace&) = delete;

 private:
  const at::Tensor* const outer_;
};

// Adds a collective's axis and, in a backward, the place of the forward call.
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

// Returns "layers.7.mlp.down_proj (5)" for the next call, "" outside a layer.
std::string numbered_place();
// Counts a call and returns its place, "" outside instructions and layers.
std::string call_place();

}  // namespace sluice::detail
