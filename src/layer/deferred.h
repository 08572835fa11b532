// Modules without memory: made with names and sizes, and with as much memory as they are to have.
//
// Owns: which tensors of a module get memory and numbers when it is made, giving memory later.
// Does not own: whose modules they are (stage.h, whole_module.h), how tensors without memory
// get the numbers that they would have had (tape.h). Thread-safety: pure functions; a module
// belongs to one thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace sluice {

using ModuleMaker = std::function<std::shared_ptr<torch::nn::Module>()>;

// Parameters of a new module that are drawn before they are used, as initialize_parameters() draws
// them.
enum class Drawn : std::uint8_t { kNone, kByDefault };

// While it lives, modules made on its thread keep their factories' numbers, since nothing draws
// their parameters later (InitialWeights::kFactory).
class FactoryNumbersScope {
 public:
  explicit FactoryNumbersScope(bool keeps);
  ~FactoryNumbersScope();
  FactoryNumbersScope(const FactoryNumbersScope&) = delete;
  FactoryNumbersScope& operator=(const FactoryNumbersScope&) = delete;

 private:
  bool outer_;
};

// The module that `make` makes, with its parameters of two or more dimensions on the meta device;
// all else has memory, and the numbers that `make` gives it, but for vectors that are drawn. layer:
// for messages. Throws Error(kUsage) for a module that somebody else holds, for whom it would be
// emptied, and where `make` reaches into memory that is not there.
std::shared_ptr<torch::nn::Module> make_deferred(const ModuleMaker& make, const std::string& layer,
                                                 Drawn drawn);

// The module that `make` makes, of which only what is left when it returns takes memory, all of it
// with the numbers that `make` gives it, but for parameters that are drawn. Throws c10::Error where
// `make` reaches into memory that is not there.
std::shared_ptr<torch::nn::Module> make_what_is_left(const ModuleMaker& make, Drawn drawn);

// Names, sizes and types of the module that `make` makes; no memory. Throws as make_what_is_left().
std::shared_ptr<torch::nn::Module> make_names(const ModuleMaker& make);

// True inside of one of these three, which decides then.
bool makes_without_memory();

// Gives parameters and buffers on the meta device memory on `device`, which is unfilled
// (unfilled.h), and moves all others there. The tensors stay the same variables, so that the
// module's own handles see it.
void to_empty(torch::nn::Module& module, at::Device device);

}  // namespace sluice
