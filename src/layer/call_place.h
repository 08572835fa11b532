// Names the place of a collective call for errors and consistency checks between ranks (group.h):
// instruction, module and number of the call, as in "1F3 layers.7.mlp.down_proj (5) over tp". The
// scopes below add to their thread's place. Their arguments must outlive them.
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
  const std::string* of_forward = nullptr;  // in a backward: numbered_place() of the forward call
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

// Names the schedule instruction that this thread runs, such as "1F3".
class InstructionPlace : public PlaceScope {
 public:
  explicit InstructionPlace(std::string instruction);
};

// Names the layer whose forward this thread runs, and numbers the layer's collectives.
class LayerPlace : public PlaceScope {
 public:
  LayerPlace(const std::string& layer, const std::vector<ParameterInfo>& parameters);
};

// While it exists, errors of this thread name the module that has `weight`, in addition to the
// layer. No effect if the weight belongs to another layer.
class WeightPlace {
 public:
  explicit WeightPlace(const at::Tensor& weight);
  ~WeightPlace();
  WeightPlace(const WeightPlace&) = delete;
  WeightPlace& operator=(const WeightPlace&) = delete;

 private:
  const at::Tensor* const outer_;
};

// Adds a collective's axis (such as "tp") and, in a backward, the place of the forward call.
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

// Returns the next collective's place, as in "layers.7.mlp.down_proj (5)", or "" outside a layer.
std::string numbered_place();
// Counts a collective and returns its place, or "" outside instructions and layers.
std::string call_place();

}  // namespace sluice::detail
