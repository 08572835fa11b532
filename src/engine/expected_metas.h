#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sluice/parts/transport.h"

namespace sluice {

// Predicts the shapes of a stage's inputs. Shapes from shape functions are certain. Otherwise,
// shapes of an earlier batch of the same sizes are a guess.
class InputMetas {
 public:
  using ShapeFunction =
      std::function<std::optional<std::vector<TensorMeta>>(int stage, const Values& batch)>;
  explicit InputMetas(ShapeFunction shapes) : shapes_(std::move(shapes)) {}

  std::optional<ExpectedTensors> expect(int stage, const Values& batch) const;
  void remember(int stage, const Values& batch, const std::vector<at::Tensor>& arrived);

 private:
  using Key = std::pair<int, std::vector<std::int64_t>>;
  static Key key(int stage, const Values& batch);

  ShapeFunction shapes_;
  std::map<Key, std::vector<TensorMeta>> memo_;
};

// Shapes of the gradients that return for sent activations.
class GradientMetas {
 public:
  void remember(int stage, int microbatch, const std::vector<at::Tensor>& sent) {
    std::vector<TensorMeta>& metas = sent_[{stage, microbatch}];
    metas.clear();
    for (const at::Tensor& tensor : sent) metas.push_back(meta_of(tensor));
  }
  // Returns nullopt if nothing was sent for the microbatch since the last call.
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
