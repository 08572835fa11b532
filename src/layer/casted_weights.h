// Casts weights for autocast once per step instead of once per microbatch.
//
// The numbers equal those of plain autocast. Each use of a copy has its own autograd node, so
// graphs stay independent. A weight that an operator modified, or that has new memory, is cast
// again. Call clear() after writes through data(), through another use of a tied weight or to raw
// memory, which go unnoticed.
//
// Belongs to its rank's thread. On CUDA, autograd's thread reruns layers while that thread waits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>

namespace sluice {

class CastedWeights {
 public:
  CastedWeights();
  void add(const at::Tensor& weight);
  bool has(const at::Tensor& weight) const;
  // Returns the weight in `type`, with a graph to the weight in grad mode. Requires has().
  at::Tensor cast(const at::Tensor& weight, at::ScalarType type);

  // Call this before the weights change.
  void clear();
  // empty() frees the copies' memory while the weights have none. fill() casts again into the same
  // tensors, so graphs can use them again.
  void empty();
  void fill();
  std::int64_t bytes() const;

 private:
  struct Copy {
    at::Tensor weight;
    at::Tensor value;
    std::int64_t version = 0;
    const void* data = nullptr;
  };
  std::unordered_map<const c10::TensorImpl*, Copy> copies_;
  bool is_empty_ = false;
};

// While it lives, products on this thread use these copies whenever autocast is on. Requires a
// KeyedRandomScope, which enables the interception.
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
