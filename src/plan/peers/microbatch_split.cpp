#include "base/format.h"
#include "plan/partition/shares.h"
#include "plan/peers/peers.h"
#include "sluice/error.h"

namespace sluice {

std::vector<RowRange> split_batch_into_microbatches(std::int64_t batch,
                                                    std::int64_t num_microbatches) {
  detail::require_count("the number of microbatches", num_microbatches, 1);
  if (batch < num_microbatches) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("a batch of {} rows has fewer rows than the {} microbatches",
                                   batch, num_microbatches),
                 .remedy = "use at most as many microbatches as rows"});
  }
  std::vector<RowRange> ranges;
  ranges.reserve(static_cast<std::size_t>(num_microbatches));
  std::int64_t start = 0;
  for (std::int64_t i = 0; i < num_microbatches; ++i) {
    const std::int64_t size = batch / num_microbatches + (i < batch % num_microbatches ? 1 : 0);
    ranges.push_back({start, size});
    start += size;
  }
  return ranges;
}

}  // namespace sluice
