// Shapes of the values that will enter a stage, before they arrive: from shape functions (certain),
// else from what entered it earlier for batch inputs of the same sizes (a guess), else unknown.
// Thread-safety: one rank's thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sluice/parts/transport.h"

namespace sluice {

class InputMetas {
 public:
  using ShapeFunction =
      std::function<std::optional<std::vector<TensorMeta>>(int stage, const Values& batch)>;
  explicit InputMetas(ShapeFunction shapes) : shapes_(std::move(shapes)) {}

  std::optional<ExpectedTensors> expect(int stage, const Values& batch) const;
  void remember(int stage, const Values& batch, const std::vector<at::Tensor>& arrived);

 private:
  using Key = std::pair<int, std::vector<std::int64_t>>;  // stage, sizes of the batch inputs
  static Key key(int stage, const Values& batch);

  ShapeFunction shapes_;
  std::map<Key, std::vector<TensorMeta>> memo_;  // only of stages without shape functions
};

}  // namespace sluice
