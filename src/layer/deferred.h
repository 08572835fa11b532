// Modules without memory: their matrices have names and sizes, and no numbers yet.
//
// Owns: making one on the meta device, giving its parameters memory. Does not own: whose modules
// they are (build_stages.h), the numbers. Thread-safety: pure functions; a module belongs to one
// thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>

namespace sluice {

// What `make` makes, with its parameters of two or more dimensions on the meta device. While it
// runs, such a tensor whose device is not said is made without memory, which is what the modules of
// torch::nn do for their weights. Vectors and scalars are made as ever: they take little, and may
// hold constants that nobody draws. layer: for messages. Throws Error(kUsage) for a module that
// somebody else holds, for whom it would be emptied, for a buffer that would lose its numbers, and
// where `make` reads numbers that are not there.
std::shared_ptr<torch::nn::Module> make_deferred(
    const std::function<std::shared_ptr<torch::nn::Module>()>& make, const std::string& layer);

// Gives parameters and buffers on the meta device memory on `device`, with no numbers in it, and
// moves all others there. The tensors stay the same variables, so that the module's own handles see
// it.
void to_empty(torch::nn::Module& module, at::Device device);

}  // namespace sluice
