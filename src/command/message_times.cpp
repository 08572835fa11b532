#include "command/message_times.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "command/instruction_times.h"

namespace sluice {
namespace {

constexpr int kMessages = 40;
constexpr double kComputing = 1e-3;  // seconds; longer than a message takes

using Clock = std::chrono::steady_clock;

void be_busy(double seconds) {
  const auto began = Clock::now();
  while (seconds_between(began, Clock::now()) < seconds) continue;
}

// Returns the seconds of a message. As in a pipeline, the sender computes while the receiver waits,
// so a transport with its own threads shares the core with the sender.
double typical_message(Transport& transport, int other, std::int64_t numbers, MessageTag& tag) {
  const at::Tensor payload = at::zeros({numbers});
  const bool begins = transport.rank() < other;
  std::vector<double> seconds;
  for (int i = 0; i < kMessages; ++i, ++tag.microbatch) {
    const auto began = Clock::now();
    const auto receive = [&] {
      transport.wait(transport.post_receive(other, ChannelKind::kActivation, tag, std::nullopt));
    };
    if (!begins) {
      receive();
      be_busy(2 * kComputing);
    }
    transport.send(other, ChannelKind::kActivation, {tag, {payload}});
    if (begins) {
      be_busy(kComputing);
      receive();
      seconds.push_back(std::max(0.0, seconds_between(began, Clock::now()) / 2 - kComputing));
    }
    be_busy(kComputing);
  }
  return typical_time(seconds);
}

}  // namespace

double largest_message(const LayerTimes& times) {
  double largest = 0;
  for (const LayerTime& layer : times.layers) {
    if (layer.role != LayerRole::kHead) largest = std::max(largest, layer.output_bytes);
  }
  return largest;
}

MessageTimes message_times(Transport& transport, int other, double bytes) {
  const auto numbers = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / sizeof(float)));
  MessageTag tag{0, 0, 1};
  const double empty = typical_message(transport, other, 1, tag);
  const double full = typical_message(transport, other, numbers, tag);
  return {empty, full > empty ? bytes / (full - empty) : 0};
}

}  // namespace sluice
