// Makes modules without memory, or with memory only for the parts that are kept (tape.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace sluice {

using ModuleMaker = std::function<std::shared_ptr<torch::nn::Module>()>;

// Which parameters are drawn later, and thus need no numbers from `make`.
enum class Drawn : std::uint8_t { kNone, kByDefault };

// While it lives, modules keep their factory's numbers (InitialWeights::kFactory).
class FactoryNumbersScope {
 public:
  explicit FactoryNumbersScope(bool keeps);
  ~FactoryNumbersScope();
  FactoryNumbersScope(const FactoryNumbersScope&) = delete;
  FactoryNumbersScope& operator=(const FactoryNumbersScope&) = delete;

 private:
  bool outer_;
};

// Leaves parameters of two or more dimensions on the meta device; other tensors get memory and the
// numbers that `make` sets. Throws Error(kUsage) that names `layer` if something else also holds
// the module, which would be emptied there, or if `make` accesses missing memory.
std::shared_ptr<torch::nn::Module> make_deferred(const ModuleMaker& make, const std::string& layer,
                                                 Drawn drawn);

// Allocates only tensors that are left when `make` returns, with the numbers that `make` sets.
// Throws c10::Error if `make` accesses missing memory.
std::shared_ptr<torch::nn::Module> make_with_memory_for_kept(const ModuleMaker& make, Drawn drawn);

// Names, sizes and types only. Throws like make_with_memory_for_kept().
std::shared_ptr<torch::nn::Module> make_names(const ModuleMaker& make);

// True inside one of these three functions.
bool is_making_without_memory();

// Moves the module to `device`. Meta tensors get unfilled memory (unfilled.h) and remain the same
// variables, so the module's members see the change.
void to_empty(torch::nn::Module& module, at::Device device);

}  // namespace sluice
