#include "train/step_loss.h"

#include <utility>
#include <vector>

#include "comm/gather_messages.h"

namespace sluice {

Work<void> StepLoss::reduce(StepReport& report) const {
  std::vector<double> sums;
  std::vector<std::int64_t> counts;
  if (executor_) {
    for (const MicrobatchLoss& loss : executor_->losses()) {
      sums.push_back(loss.sum);
      counts.push_back(loss.count);
    }
  }
  WireWriter own;
  own.add(stop_requested_ && stop_requested_()).add(sums).add(counts);
  return post_messages(world_, own, "loss of the step")
      .then([&report](std::vector<WireReader> messages) {
        double sum = 0;
        report.tokens = 0;
        report.stop = false;
        for (WireReader& message : messages) {
          report.stop |= message.take<bool>();
          for (const double loss : message.take<std::vector<double>>()) sum += loss;
          for (const auto count : message.take<std::vector<std::int64_t>>()) report.tokens += count;
          message.finish();
        }
        report.loss = sum / static_cast<double>(report.tokens);  // the Trainer refuses 0 tokens
      });
}

}  // namespace sluice
