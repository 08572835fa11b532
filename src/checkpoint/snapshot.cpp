#include "checkpoint/snapshot.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "device/ready.h"
#include "sluice/parts/saver.h"

namespace sluice {

NamedTensors Snapshot::copy(const char* kind, const NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) {
    at::Tensor& buffer = buffers_[std::string(kind) + name];
    if (!buffer.defined() || buffer.sizes() != tensor.sizes() ||
        buffer.scalar_type() != tensor.scalar_type()) {
      buffer = at::empty(
          tensor.sizes(),
          at::TensorOptions(tensor.scalar_type()).pinned_memory(tensor.device().is_cuda()));
    }
    buffer.copy_(tensor, /*non_blocking=*/true);
    copied_.push_back(tensor);
    copies.emplace_back(name, buffer);
  }
  return copies;
}

RankState Snapshot::take(const RankState& state) {
  copied_.clear();
  RankState kept = {.parameters = copy("parameters/", state.parameters),
                    .buffers = copy("buffers/", state.buffers),
                    .optimizer = copy("optimizer/", state.optimizer),
                    .ties = state.ties,
                    .extra = copy("extra/", state.extra)};
  ready_now(copied_).wait_here();
  copied_.clear();
  return kept;
}

}  // namespace sluice
