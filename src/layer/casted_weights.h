// Casts weights for autocast once per step instead of once per microbatch.
//
// Results equal those of plain autocast. Each use of a casted copy has its own autograd node, so
// the graphs of microbatches stay independent. A weight is cast again if an operator modified it or
// its memory was replaced. Call clear() after other writes: through data(), through another use of
// a tied weight, or to raw memory.
//
// Belongs to its rank's thread. On CUDA, autograd's thread runs layers again while that thread
// waits.
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
  // Returns the weight in `type`. In grad mode the copy's graph leads to the weight.
  at::Tensor cast(const at::Tensor& weight, at::ScalarType type);

  // Call this before the weights change.
  void clear();
  // empty() frees the copies' memory while the weights have no memory. fill() casts into the same
  // tensors again, so graphs that saved them can run.
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

// Matrix products on this thread use the casted copies in `weights` while the scope exists and
// autocast is on. Requires a KeyedRandomScope.
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
