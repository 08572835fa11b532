#include "checkpoint/snapshot.h"

#include <ATen/ATen.h>

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
    buffer.copy_(tensor);
    copies.emplace_back(name, buffer);
  }
  return copies;
}

RankState Snapshot::take(const RankState& state) {
  return {.parameters = copy("parameters/", state.parameters),
          .buffers = copy("buffers/", state.buffers),
          .optimizer = copy("optimizer/", state.optimizer),
          .ties = state.ties,
          .extra = copy("extra/", state.extra)};
}

}  // namespace sluice
