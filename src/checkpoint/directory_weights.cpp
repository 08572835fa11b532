#include "checkpoint/directory_weights.h"

#include <vector>

#include "kind/adapter_files.h"

namespace sluice {
namespace {

std::vector<ParameterInfo> buffers_of(Stage& stage) {
  std::vector<ParameterInfo> buffers;
  for (auto& [name, tensor] : stage.chunk().buffers()) {
    ParameterInfo& info = buffers.emplace_back();
    info.name = name;
    info.global_shape = tensor.sizes().vec();
    info.tensor = tensor;
    info.trainable = false;
  }
  return buffers;
}

}  // namespace

FillStage weights_of(const HfDirectory& directory, const ModelSpec& spec) {
  return [&directory, &spec](Stage& stage) {
    std::vector<ParameterInfo> base;
    for (const ParameterInfo& parameter : stage.parameters())
      if (!is_adapter_parameter(parameter.name)) base.push_back(parameter);
    load_parameters(directory, base, spec);
    std::vector<ParameterInfo> buffers = buffers_of(stage);
    load_buffers(directory, buffers);
  };
}

FillStage weights_of(const HfDirectory& directory, const ModelSpec& spec,
                     const AdapterDirectory* adapter, std::uint64_t seed) {
  return [base = weights_of(directory, spec), adapter, seed](Stage& stage) {
    base(stage);
    if (adapter)
      load_adapter(*adapter, stage.parameters());
    else
      draw_adapter(stage.parameters(), seed);
  };
}

}  // namespace sluice
