#include "train/step_loss.h"

#include <algorithm>
#include <utility>

#include "comm/gather_messages.h"

namespace sluice {
namespace {

WireWriter write_losses(const Executor* executor, bool flag) {
  std::vector<std::int64_t> microbatches, counts;
  std::vector<double> sums;
  if (executor) {
    for (const MicrobatchLoss& loss : executor->losses()) {
      microbatches.push_back(loss.microbatch);
      sums.push_back(loss.sum);
      counts.push_back(loss.count);
    }
  }
  return WireWriter().add(flag).add(microbatches).add(sums).add(counts);
}

GatheredLosses read_losses(std::vector<WireReader> messages) {
  GatheredLosses gathered;
  for (WireReader& message : messages) {
    gathered.flag |= message.take<bool>();
    const auto microbatches = message.take<std::vector<std::int64_t>>();
    const auto sums = message.take<std::vector<double>>();
    const auto counts = message.take<std::vector<std::int64_t>>();
    message.finish();
    for (std::size_t i = 0; i < microbatches.size(); ++i)
      gathered.of_microbatches.push_back({microbatches[i], sums.at(i), counts.at(i)});
  }
  std::sort(gathered.of_microbatches.begin(), gathered.of_microbatches.end(),
            [](const auto& a, const auto& b) { return a.microbatch < b.microbatch; });
  return gathered;
}

}  // namespace

double GatheredLosses::sum() const {
  double sum = 0;
  for (const MicrobatchLoss& loss : of_microbatches) sum += loss.sum;
  return sum;
}

std::int64_t GatheredLosses::count() const {
  std::int64_t count = 0;
  for (const MicrobatchLoss& loss : of_microbatches) count += loss.count;
  return count;
}

Work<GatheredLosses> post_losses(const Group& world, const Executor* executor, bool flag) {
  return post_messages(world, write_losses(executor, flag), "losses of the step")
      .then(&read_losses);
}

Work<void> StepLoss::reduce(StepReport& report) const {
  return post_losses(world_, executor_, stop_requested_ && stop_requested_())
      .then([&report](const GatheredLosses& losses) {
        report.tokens = losses.count();
        report.stop = losses.flag;
        report.loss = losses.sum() / static_cast<double>(report.tokens);  // never 0 in a Trainer
      });
}

}  // namespace sluice
