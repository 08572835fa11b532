// Initial values by a function of one's own, in place of those of the layers.
//
// Owns: Initialization. Does not own: what layers do without one (LayerSpec::initialize).
// Thread-safety: see Model.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <string>

namespace sluice {

class Chunk;

// Called for what is on this rank, without autograd; what it draws from torch's default generator
// (torch::nn::init::xavier_uniform_, normal_, ..) is keyed by seed and name, so that the bits are
// the same in every layout. One of the two.
struct Initialization {
  // Of every parameter and buffer, by its full name; a tied parameter once, by that of its first
  // use. value is whole: a slice is taken out of it afterwards.
  std::function<void(const std::string& name, at::Tensor& value)> tensor;
  // Of every module that has parameters or buffers of its own, by its full name; of which class it
  // is says module.as<torch::nn::Linear>(). A tied parameter has the value of its first use. A
  // module whose own parameters are on several stages is refused.
  std::function<void(const std::string& name, torch::nn::Module& module)> module;

  bool is_given() const { return tensor || module; }
};

// Draws every parameter and buffer of the chunk. Precondition: is_given(). Throws Error(kUsage) if
// both are given, and for `module` where a rank holds a slice of a parameter.
void initialize_by(const Initialization& user, Chunk& chunk, std::uint64_t seed);

}  // namespace sluice
