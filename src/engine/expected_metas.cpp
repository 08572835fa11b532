#include "engine/expected_metas.h"

namespace sluice {
namespace {
// Limits memory use if microbatches have many different lengths.
constexpr std::size_t kMaxMemoSize = 1024;
}  // namespace

InputMetas::Key InputMetas::key(int stage, const Values& batch) {
  Key key{stage, {}};
  for (const auto& [name, tensor] : batch) {
    key.second.push_back(tensor.defined() ? tensor.dim() : -1);
    if (!tensor.defined()) continue;
    key.second.insert(key.second.end(), tensor.sizes().begin(), tensor.sizes().end());
  }
  return key;
}

std::optional<ExpectedTensors> InputMetas::expect(int stage, const Values& batch) const {
  if (shapes_) {
    if (auto metas = shapes_(stage, batch))
      return ExpectedTensors{std::move(*metas), /*certain=*/true};
  }
  const auto found = memo_.find(key(stage, batch));
  if (found == memo_.end()) return std::nullopt;
  return ExpectedTensors{found->second, /*certain=*/false};
}

void InputMetas::remember(int stage, const Values& batch, const std::vector<at::Tensor>& arrived) {
  if (shapes_ && shapes_(stage, batch)) return;
  if (memo_.size() >= kMaxMemoSize) memo_.clear();
  std::vector<TensorMeta>& metas = memo_[key(stage, batch)];
  metas.clear();
  for (const at::Tensor& tensor : arrived) metas.push_back(meta_of(tensor));
}

}  // namespace sluice
