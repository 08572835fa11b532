// The parts of its parameters that a layer's module holds, as LayerSpec::slices and the
// SlicedModules in it declare them. Thread-safety: one rank's thread.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

#include "sluice/layer.h"

namespace sluice {

class DeclaredSlices {
 public:
  // The layer must outlive it. Throws Error(kUsage) for a parameter that is declared twice.
  DeclaredSlices(const LayerSpec& layer, const torch::nn::Module& module);

  // Sets what the rank holds of the parameter: all of it where nothing is declared. inside: its
  // name inside the module. Throws Error(kUsage) for a tensor of another shape, for a dimension or
  // sections that it does not have, for a shared weight of several slices.
  void fill(ParameterInfo& info, const std::string& inside) const;
  // Throws Error(kUsage) for what is declared, and no parameter of the module.
  void require_all_found(const std::vector<std::string>& parameters) const;

 private:
  const LayerSpec& layer_;
  std::vector<std::pair<std::string, ParameterSlices>> declared_;  // by name inside the module
};

}  // namespace sluice
