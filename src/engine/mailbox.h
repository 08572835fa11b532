// Stores one rank's tensors between neighbouring stages. Arriving tensors wait for their stage's
// compute, leaving tensors for their SEND. If both stages are on this rank, tensors are put as
// arriving. Each tensor is taken once.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/format.h"
#include "plan/channel.h"
#include "plan/stage_microbatch.h"
#include "sluice/error.h"
#include "sluice/parts/transport.h"

namespace sluice {

class Mailbox {
 public:
  using Tensors = std::vector<at::Tensor>;

  void put_arriving(ChannelKind kind, int stage, int microbatch, Tensors tensors) {
    arriving_[kind][{stage, microbatch}] = {std::move(tensors), std::nullopt};
  }
  void put_posted(ChannelKind kind, int stage, int microbatch, Transport::Ticket ticket) {
    arriving_[kind][{stage, microbatch}] = {{}, ticket};
  }
  // Returns the tensors, or the ticket to wait for if only their receive was posted.
  std::pair<Tensors, std::optional<Transport::Ticket>> take_arriving(ChannelKind kind, int stage,
                                                                     int microbatch) {
    return take(arriving_, kind, {stage, microbatch}, "arrived");
  }
  void put_leaving(ChannelKind kind, int stage, int microbatch, Tensors tensors) {
    leaving_[kind][{stage, microbatch}] = {std::move(tensors), std::nullopt};
  }
  Tensors take_leaving(ChannelKind kind, int stage, int microbatch) {
    return take(leaving_, kind, {stage, microbatch}, "is there to send").first;
  }
  void clear() {
    arriving_ = {};
    leaving_ = {};
  }

 private:
  using Slot = std::pair<Tensors, std::optional<Transport::Ticket>>;
  using Slots = detail::PerKind<std::unordered_map<detail::StageMicrobatch, Slot>>;

  static Slot take(Slots& slots, ChannelKind kind, detail::StageMicrobatch of, const char* verb) {
    const auto found = slots[kind].find(of);
    if (found == slots[kind].end()) {
      throw Error(ErrorKind::kInternal,
                  {.what = std::string("no ") +
                           (kind == ChannelKind::kActivation ? "activation " : "gradient ") + verb,
                   .where = formatted("stage {}, microbatch {}", of.stage, of.microbatch)});
    }
    Slot slot = std::move(found->second);
    slots[kind].erase(found);
    return slot;
  }

  Slots arriving_, leaving_;
};

}  // namespace sluice
