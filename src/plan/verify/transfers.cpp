// Both ends of every transfer exist, and meet in one order on every channel.
#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "plan/verify/verification.h"

namespace sluice::detail {
namespace {

// The instruction is the one that the index holds.
bool counts(const Verification& v, int rank, int index, const Action& action) {
  return is_transfer(action.kind) && action.microbatch >= 0 &&
         action.microbatch < v.program.num_microbatches &&
         rank_of(v.program, action.stage) == rank &&
         v.places.find(action.stage, action.microbatch)[action.kind] == index;
}

// A message whose two ends exist: where on its channel it was sent, and where it is received.
struct Meeting {
  std::int32_t sent;      // index in the row of the sender
  std::int32_t received;  // index in the row of the receiver
};

// The receives that do not lie on the longest run in the order of the sends: the fewest whose move
// would put the channel in order. `channel` is in the order of the receives.
std::vector<Meeting> out_of_order(const std::vector<Meeting>& channel) {
  const auto in_order = std::is_sorted(channel.begin(), channel.end(),
                                       [](auto& a, auto& b) { return a.sent < b.sent; });
  if (in_order) return {};
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> ends;  // by length - 1: the run of that length that ends lowest
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
  std::vector<Meeting> culprits;
  for (std::size_t i = 0; i < channel.size(); ++i) {
    if (!on_run[i]) culprits.push_back(channel[i]);
  }
  return culprits;
}

void check_channels_of(Verification& v, int receiver,
                       std::unordered_map<std::int64_t, std::vector<Meeting>>& channels) {
  for (auto& [key, channel] : channels) {
    const int sender = static_cast<int>(key / 2);
    for (const Meeting& culprit : out_of_order(channel)) {
      v.report(receiver, culprit.received,
               "out of order on the channel from rank " + std::to_string(sender) +
                   ", where it is " + quote(v.program, sender, culprit.sent));
    }
    channel.clear();
  }
}

}  // namespace

void check_transfers(Verification& v) {
  std::unordered_map<std::int64_t, std::vector<Meeting>> channels;  // of one receiver
  for (int rank = 0; rank < v.program.num_ranks; ++rank) {
    const std::vector<Action>& row = v.program.ranks[rank];
    for (int index = 0; index < static_cast<int>(row.size()); ++index) {
      const Action& action = row[index];
      if (!counts(v, rank, index, action)) continue;
      const Action other = counterpart(action);
      const int peer = rank_of(v.program, other.stage);
      const std::int32_t place = v.places.find(other.stage, other.microbatch)[other.kind];
      if (place == Places::kAbsent && peer >= 0) {
        v.report(rank, index,
                 "no " + quote(other) + " on rank " + std::to_string(peer) +
                     (is_send(action.kind) ? " takes this message" : " sends what this waits for"));
      } else if (place >= 0 && is_recv(action.kind)) {
        channels[2 * static_cast<std::int64_t>(peer) + is_activation(action.kind)].push_back(
            {place, index});
      }
    }
    check_channels_of(v, rank, channels);
  }
}

}  // namespace sluice::detail
