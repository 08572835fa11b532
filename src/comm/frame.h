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

struct MessageHead {
  int source = -1;
  int destination = -1;
  ChannelKind kind = ChannelKind::kActivation;
  MessageTag tag;
};

// One member's contribution to a collective.
struct CollectiveHead {
  std::string group;
  std::uint64_t number = 0;
  int member = -1;
  GroupNote note;
  // pieces[i]: index in Frame::tensors of member i's tensor, or -1 for none.
  std::vector<std::int64_t> pieces;
};

// A rank has failed. No frame follows on the connection.
struct AbortHead {
  Failure failure;
};

// The process ends without a failure. No frame follows on the connection.
struct GoodbyeHead {};

using FrameHead = std::variant<MessageHead, CollectiveHead, AbortHead, GoodbyeHead>;

struct Frame {
  FrameHead head;
  std::vector<at::Tensor> tensors;
};

struct FrameOutline {
  FrameHead head;
  std::vector<TensorLayout> layouts;
};

std::string write_outline(const FrameHead& head, const std::vector<TensorLayout>& layouts);
// Throws Error(kPeer), naming the place `where`, for malformed bytes.
FrameOutline read_outline(std::string bytes, const std::string& where);

}  // namespace sluice
