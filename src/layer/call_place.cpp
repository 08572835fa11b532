#include "layer/call_place.h"

#include <utility>

#include "base/format.h"

namespace sluice::detail {
namespace {

thread_local CallPlace place;

bool is_parameter(const at::Tensor& weight) {
  if (!place.parameters) return false;
  for (const ParameterInfo& parameter : *place.parameters)
    if (parameter.tensor.is_same(weight)) return true;
  return false;
}

std::string module_here() {
  if (!place.weight) return *place.layer;
  for (const ParameterInfo& parameter : *place.parameters) {
    if (parameter.tensor.is_same(*place.weight))
      return parameter.name.substr(0, parameter.name.rfind('.'));
  }
  return *place.layer;
}

}  // namespace

PlaceScope::PlaceScope() : outer_(place) {}
PlaceScope::~PlaceScope() { place = outer_; }
CallPlace& PlaceScope::here() { return place; }

InstructionPlace::InstructionPlace(std::string instruction) {
  here() = {};
  here().instruction = std::move(instruction);
}

LayerPlace::LayerPlace(const std::string& layer, const std::vector<ParameterInfo>& parameters) {
  std::string instruction = std::move(here().instruction);
  here() = {};
  here().instruction = std::move(instruction);
  here().layer = &layer;
  here().parameters = &parameters;
}

WeightPlace::WeightPlace(const at::Tensor& weight) : outer_(place.weight) {
  if (is_parameter(weight)) place.weight = &weight;
}
WeightPlace::~WeightPlace() { place.weight = outer_; }

AxisPlace::AxisPlace(const char* axis, const std::string& of_forward)
    : outer_axis_(std::exchange(place.axis, axis)),
      outer_of_forward_(
          std::exchange(place.of_forward, of_forward.empty() ? nullptr : &of_forward)) {}
AxisPlace::~AxisPlace() {
  place.axis = outer_axis_;
  place.of_forward = outer_of_forward_;
}

std::string numbered_place() {
  return place.layer ? formatted("{} ({})", module_here(), ++place.num_calls) : std::string();
}

std::string call_place() {
  std::string text = place.instruction;
  const std::string at = place.of_forward ? "backward of " + *place.of_forward : numbered_place();
  if (!text.empty() && !at.empty()) text += ' ';
  text += at;
  if (!text.empty() && place.axis) text += std::string(" over ") + place.axis;
  return text;
}

}  // namespace sluice::detail
