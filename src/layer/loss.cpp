#include <ATen/ops/ne.h>

#include "sluice/error.h"
#include "sluice/parts/loss.h"

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

}  // namespace sluice
