// Sizes of the gradients that the consumer of a sent activation will send back.
// Thread-safety: one rank's thread.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sluice/parts/transport.h"

namespace sluice {

class GradientMetas {
 public:
  void remember(int stage, int microbatch, const std::vector<at::Tensor>& sent) {
    std::vector<TensorMeta>& metas = sent_[{stage, microbatch}];
    metas.clear();
    for (const at::Tensor& tensor : sent) metas.push_back(meta_of(tensor));
  }
  // nullopt when nothing was sent since the last call.
  std::optional<ExpectedTensors> expect(int stage, int microbatch) {
    auto found = sent_.extract({stage, microbatch});
    if (found.empty()) return std::nullopt;
    return ExpectedTensors{std::move(found.mapped()), /*certain=*/true, {}};
  }
  void clear() { sent_.clear(); }

 private:
  std::map<std::pair<int, int>, std::vector<TensorMeta>> sent_;
};

}  // namespace sluice
