// Saves an autograd node's SliceGroup for its backward. On CUDA, autograd's thread uses the group
// while the rank's thread waits.
#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "layer/call_place.h"
#include "sluice/error.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::detail {

struct HeldGroup : torch::CustomClassHolder {
  explicit HeldGroup(SliceGroup group) : tp(std::move(group)) {}
  SliceGroup tp;
};

inline void hold(torch::autograd::AutogradContext* context, const SliceGroup& tp) {
  context->saved_data["tp"] =
      c10::IValue::make_capsule(c10::make_intrusive<HeldGroup>(tp.of_call(numbered_place())));
}

// Throws Error(kUsage) if the backward runs with create_graph.
inline void require_one_derivative() {
  if (at::GradMode::is_enabled()) {
    throw Error(ErrorKind::kUsage,
                {.what = "layers that ranks run together are differentiable once",
                 .where = "sluice/parts/tensor_parallel.h",
                 .remedy = "call backward without create_graph"});
  }
}

inline SliceGroup held(torch::autograd::AutogradContext* context) {
  require_one_derivative();
  return static_cast<HeldGroup&>(*context->saved_data["tp"].toCapsule()).tp;
}

}  // namespace sluice::detail
