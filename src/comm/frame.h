// Frames, which processes of a run send each other: a head, and tensors.
//
// Owns: the heads and their format. Does not own: how bytes move (link.h), what becomes of a frame
// (process_ranks.h).
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "comm/group_backend.h"
#include "comm/tensor_layout.h"
#include "sluice/parts/group.h"
#include "sluice/parts/transport.h"

namespace sluice {

// A message of the pipeline.
struct MessageHead {
  int source = -1;
  int destination = -1;
  ChannelKind kind = ChannelKind::kActivation;
  MessageTag tag;
};

// The contribution of a member to an exchange of its group.
struct CollectiveHead {
  std::string group;         // its id
  std::uint64_t number = 0;  // of the exchange in the group
  int member = -1;
  GroupNote note;
  // For every member of the group: which of the frame's tensors it is given, -1 for none (and for
  // members that are elsewhere).
  std::vector<std::int64_t> pieces;
};

// A rank has failed: nothing follows.
struct AbortHead {
  Failure failure;
};

// The process ends, and that is no failure: nothing follows.
struct GoodbyeHead {};

using FrameHead = std::variant<MessageHead, CollectiveHead, AbortHead, GoodbyeHead>;

struct Frame {
  FrameHead head;
  std::vector<at::Tensor> tensors;
};

// A frame without the tensors' bytes.
struct FrameOutline {
  FrameHead head;
  std::vector<TensorLayout> layouts;
};

std::string write_outline(const FrameHead& head, const std::vector<TensorLayout>& layouts);
// Throws Error(kPeer), naming `where`, for bytes that write_outline does not make.
FrameOutline read_outline(std::string bytes, const std::string& where);

}  // namespace sluice
