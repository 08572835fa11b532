#include "engine/auxiliary_losses.h"

#include <ATen/ops/full_like.h>

#include <algorithm>

#include "base/name_pattern.h"
#include "device/transfers.h"
#include "engine/executor.h"
#include "sluice/error.h"

namespace sluice {

const AuxiliaryLoss* AuxiliaryLosses::find(const std::string& value) const {
  const auto found = std::find_if(losses_.begin(), losses_.end(), [&](const AuxiliaryLoss& loss) {
    return matches_pattern(loss.value, value);
  });
  return found == losses_.end() ? nullptr : &*found;
}

std::vector<at::Tensor> AuxiliaryLosses::take(int stage, int microbatch, const Values& outputs) {
  std::vector<at::Tensor> roots;
  if (losses_.empty()) return roots;
  std::vector<Taken>& taken = taken_[{stage, microbatch}];
  taken.clear();
  for (const auto& [name, tensor] : outputs) {
    const AuxiliaryLoss* loss = find(name);
    if (!loss) continue;
    if (!tensor.defined() || tensor.numel() != 1 || !tensor.is_floating_point()) {
      throw Error(ErrorKind::kUsage,
                  {.what = "the auxiliary loss '" + name + "' must be one floating-point number",
                   .where = "got " + (tensor.defined() ? to_text(meta_of(tensor)) : "nothing"),
                   .remedy = "write the mean over the microbatch"});
    }
    const bool is_half = at::isReducedFloatingType(tensor.scalar_type());
    roots.push_back(is_half ? tensor.to(at::kFloat) : tensor);
    taken.push_back({name, loss->scale, roots.back().detach()});
  }
  return roots;
}

void AuxiliaryLosses::put_gradients(int stage, int microbatch, double weight,
                                    std::vector<at::Tensor>& gradients) const {
  const auto taken = taken_.find({stage, microbatch});
  if (taken == taken_.end()) return;
  std::vector<at::Tensor> all;
  for (const Taken& loss : taken->second)
    all.push_back(at::full_like(loss.value, loss.scale * weight));
  all.insert(all.end(), gradients.begin(), gradients.end());
  gradients = std::move(all);
}

std::vector<MicrobatchAuxiliary> AuxiliaryLosses::values() const {
  std::vector<MicrobatchAuxiliary> values;
  std::vector<at::Tensor> tensors;
  for (const auto& [key, losses] : taken_) {
    for (const Taken& loss : losses) {
      values.push_back({loss.name, key.first, key.second, 0.0});
      tensors.push_back(loss.value);
    }
  }
  const std::vector<double> numbers = read_numbers(tensors);
  for (std::size_t i = 0; i < numbers.size(); ++i) values[i].value = numbers[i];
  return values;
}

}  // namespace sluice
