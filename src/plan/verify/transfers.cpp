// Checks that every SEND has a RECV and that both ends of every channel have the same order.
#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "base/format.h"
#include "plan/action_kinds.h"
#include "plan/verify/verification.h"

namespace sluice::detail {
namespace {

// False for repeated, out-of-range or misplaced transfers, which are reported elsewhere.
bool counts(const Verification& v, int rank, int index, const Action& action) {
  return is_transfer(action.kind) && action.microbatch >= 0 &&
         action.microbatch < v.program.num_microbatches &&
         v.program.stage_map.rank_of(action.stage) == rank &&
         v.instructions.find({action.stage, action.microbatch})[action.kind] == index;
}

struct Delivery {
  std::int32_t sent;
  std::int32_t received;
};

// `channel` lists deliveries in receive order. Returns the fewest receives that must move to put
// them in send order.
std::vector<Delivery> out_of_order(const std::vector<Delivery>& channel) {
  const auto in_order = std::is_sorted(channel.begin(), channel.end(),
                                       [](auto& a, auto& b) { return a.sent < b.sent; });
  if (in_order) return {};
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> ends;  // [length - 1]: ordered run of this length with the smallest end
  std::vector<std::size_t> before(channel.size(), kNone);
  for (std::size_t i = 0; i < channel.size(); ++i) {
    const auto longer = std::lower_bound(
        ends.begin(), ends.end(), channel[i].sent,
        [&](std::size_t end, std::int32_t sent) { return channel[end].sent < sent; });
    if (longer != ends.begin()) before[i] = *std::prev(longer);
    if (longer == ends.end())
      ends.push_back(i);
    else
      *longer = i;
  }
  std::vector<bool> on_run(channel.size(), false);
  for (std::size_t i = ends.back(); i != kNone; i = before[i]) on_run[i] = true;
  std::vector<Delivery> culprits;
  for (std::size_t i = 0; i < channel.size(); ++i) {
    if (!on_run[i]) culprits.push_back(channel[i]);
  }
  return culprits;
}

// PyTorch messages have no tags, so the n-th RECV between two ranks receives the n-th message.
// Reports RECVs that would receive a wrong one. `deliveries` must hold all messages in this
// direction.
void report_wrong_messages(Verification& v, const Channel& channel,
                           const std::vector<Delivery>& deliveries) {
  std::vector<std::int32_t> sent(deliveries.size());
  std::transform(deliveries.begin(), deliveries.end(), sent.begin(),
                 [](const Delivery& delivery) { return delivery.sent; });
  std::sort(sent.begin(), sent.end());
  for (const Delivery& culprit : out_of_order(deliveries)) {
    const auto at = std::lower_bound(
        deliveries.begin(), deliveries.end(), culprit.received,
        [](const Delivery& delivery, std::int32_t index) { return delivery.received < index; });
    const std::int32_t message = sent[static_cast<std::size_t>(at - deliveries.begin())];
    if (message == culprit.sent) continue;
    v.report(channel.destination, culprit.received,
             formatted("torch would receive {} as {}: all messages from rank {} to rank {} share "
                       "one FIFO",
                       quote(v.program, channel.source, message),
                       quote(v.program, channel.destination, culprit.received), channel.source,
                       channel.destination));
  }
}

void check_order_of(Verification& v, std::unordered_map<Channel, std::vector<Delivery>>& channels) {
  for (auto& [channel, deliveries] : channels) {
    if (v.transport == ProofTransport::kTorch) {
      report_wrong_messages(v, channel, deliveries);
      continue;
    }
    for (const Delivery& culprit : out_of_order(deliveries)) {
      v.report(channel.destination, culprit.received,
               formatted("out of order on the channel from rank {}, where it is {}", channel.source,
                         quote(v.program, channel.source, culprit.sent)));
    }
  }
  channels.clear();
}

}  // namespace

void check_transfers(Verification& v) {
  std::unordered_map<Channel, std::vector<Delivery>> channels;  // channels to one receiver
  for (int rank = 0; rank < v.program.num_ranks(); ++rank) {
    const std::vector<Action>& row = v.program.ranks[rank];
    for (int index = 0; index < static_cast<int>(row.size()); ++index) {
      const Action& action = row[index];
      if (!counts(v, rank, index, action)) continue;
      const Action other = counterpart(v.program, action);
      const int peer = v.program.stage_map.rank_of(other.stage);
      const std::int32_t other_index =
          v.instructions.find({other.stage, other.microbatch})[other.kind];
      if (other_index == InstructionIndices::kAbsent && peer >= 0) {
        v.report(
            rank, index,
            formatted("no {} on rank {}{}", quote(other), peer,
                      is_send(action.kind) ? " takes this message" : " sends what this waits for"));
      } else if (other_index >= 0 && is_recv(action.kind)) {
        channels[fifo_of(channel_of(v.program, action), v.channels_per())].push_back(
            {other_index, index});
      }
    }
    check_order_of(v, channels);
  }
}

}  // namespace sluice::detail
