// Weights in the type in which autocast computes products: one copy of each for all microbatches of
// a step, instead of one for each of them.
//
// Owns: the copies of a chunk's parameters, from their first product on; how a product gets one, in
// unchanged user code. Does not own: whether a thread is under autocast, which operators compute in
// the lower type (LibTorch's autocast decides both), when weights change (the caller clears).
//
// Invariants:
//  1. Numbers are those of autocast without copies: the weight rounded, its gradient of a
//     microbatch rounded to the lower type, then widened and added up in the weight's own type.
//  2. A copy serves several graphs and ties none to another: each has a node of its own.
//  3. A weight that an operator has written to since, or that has other memory, is cast again. Not
//     seen: writes through data(), through another use of a tied weight, and to raw memory.
// Thread-safety: one rank's thread; on CUDA the engine's thread runs layers again while that thread
// waits for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>

namespace sluice {

class CastedWeights {
 public:
  CastedWeights();
  // A parameter whose copies are kept.
  void add(const at::Tensor& weight);
  bool has(const at::Tensor& weight) const;
  // The weight in `type`, with a graph that ends at it where one is recorded. Precondition: has().
  at::Tensor cast(const at::Tensor& weight, at::ScalarType type);

  // The weights are about to change: no copy is left.
  void clear();
  // The weights are about to lose their memory, and their copies do: graphs that have saved them
  // are valid again after fill(), which computes them from the same weights.
  void empty();
  void fill();
  // Bytes of all copies.
  std::int64_t bytes() const;

 private:
  struct Copy {
    at::Tensor weight;
    at::Tensor value;  // without a graph; undefined: none
    std::int64_t version = 0;
    const void* data = nullptr;  // memory of the weight
  };
  std::unordered_map<const c10::TensorImpl*, Copy> copies_;
  bool is_empty_ = false;  // between empty() and fill()
};

// While it lives, products on this thread that autocast computes in a lower type take these copies,
// if the thread is under autocast when it starts. Inside a KeyedRandomScope, which includes the
// dispatch key.
class CastedWeightsScope {
 public:
  explicit CastedWeightsScope(CastedWeights& weights);
  ~CastedWeightsScope();
  CastedWeightsScope(const CastedWeightsScope&) = delete;
  CastedWeightsScope& operator=(const CastedWeightsScope&) = delete;

 private:
  CastedWeights* outer_;
};

}  // namespace sluice
