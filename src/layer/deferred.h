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

// Which parameters get their initial values after `make`.
enum class Drawn : std::uint8_t { kNone, kByDefault };

// With `keeps`, modules made in this scope keep their factory's numbers (InitialWeights::kFactory).
class FactoryNumbersScope {
 public:
  explicit FactoryNumbersScope(bool keeps);
  ~FactoryNumbersScope();
  FactoryNumbersScope(const FactoryNumbersScope&) = delete;
  FactoryNumbersScope& operator=(const FactoryNumbersScope&) = delete;

 private:
  bool outer_;
};

// Leaves parameters of two or more dimensions on the meta device. Other tensors get memory and the
// numbers that `make` sets. Throws Error(kUsage) naming `layer` if `make` accesses missing memory,
// or if the module has another owner, which would lose its weights.
std::shared_ptr<torch::nn::Module> make_deferred(const ModuleMaker& make, const std::string& layer,
                                                 Drawn drawn);

// Allocates only tensors that are alive when `make` returns, with their numbers. Throws c10::Error
// if `make` accesses missing memory.
std::shared_ptr<torch::nn::Module> make_with_memory_for_kept(const ModuleMaker& make, Drawn drawn);

// Makes only names, sizes and types. Throws like make_with_memory_for_kept().
std::shared_ptr<torch::nn::Module> make_names(const ModuleMaker& make);

// Whether this thread is inside one of the three functions above.
bool is_making_without_memory();

// Moves the module to `device`. Meta tensors get unfilled memory (unfilled.h) and remain the same
// variables.
void to_empty(torch::nn::Module& module, at::Device device);

}  // namespace sluice
