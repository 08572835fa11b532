#include <ATen/ops/ne.h>

#include "sluice/data.h"
#include "sluice/error.h"
#include "sluice/model.h"

namespace sluice {

std::int64_t count_tokens(const at::Tensor& labels_BL) {
  if (labels_BL.dim() != 2) {
    throw Error(ErrorKind::kUsage, {.what = "labels are " + to_text(meta_of(labels_BL)),
                                    .where = "count_tokens",
                                    .remedy = "give integers [batch, length]"});
  }
  if (labels_BL.size(1) < 2) return 0;
  return labels_BL.narrow(1, 1, labels_BL.size(1) - 1).ne(kIgnoredLabel).sum().item<std::int64_t>();
}

std::int64_t count_rows(const Values& batch) {
  for (const auto& [name, tensor] : batch) {
    if (tensor.defined() && tensor.dim() > 0) return tensor.size(0);
  }
  return 0;
}

LossFunction loss_output(const std::string& output,
                         std::function<std::int64_t(const Values& batch)> rows) {
  return mean_loss([output](const Values& outputs, const Values&) { return outputs.get(output); },
                   std::move(rows));
}

LossFunction mean_loss(
    std::function<at::Tensor(const Values& outputs, const Values& batch)> mean_of_rows,
    std::function<std::int64_t(const Values& batch)> rows) {
  return [mean_of_rows = std::move(mean_of_rows), rows = std::move(rows)](const Values& outputs,
                                                                          const Values& batch) {
    const std::int64_t count = rows ? rows(batch) : count_rows(batch);
    at::Tensor mean = mean_of_rows(outputs, batch);
    if (at::isReducedFloatingType(mean.scalar_type())) mean = mean.to(at::kFloat);
    return LossValue{mean * static_cast<double>(count), count};
  };
}

}  // namespace sluice
