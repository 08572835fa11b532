// The slices of a layer's parameters that this rank holds, declared by LayerSpec::slices or
// SlicedModule.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

#include "sluice/layer.h"

namespace sluice {

class DeclaredSlices {
 public:
  // `layer` must outlive this object. Throws Error(kUsage) for a parameter declared twice.
  DeclaredSlices(const LayerSpec& layer, const torch::nn::Module& module);

  // Sets which tensor-parallel slices of a parameter this rank holds (by default all). `inside` is
  // the parameter's name in the module. Throws Error(kUsage) if the declared shape, dimension or
  // sections (separately divided projections, such as q, k and v) do not fit the parameter, or if a
  // shared weight has several slices on this rank.
  void fill(ParameterInfo& info, const std::string& inside) const;
  void require_all_found(const std::vector<std::string>& parameters) const;

 private:
  const LayerSpec& layer_;
  std::vector<std::pair<std::string, ParameterSlices>> declared_;
};

}  // namespace sluice
