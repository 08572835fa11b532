#include "comm/frame.h"

#include <utility>

#include "base/format.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxTensors = 1 << 20;

template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};

[[noreturn]] void refuse_frame(const std::string& what, const std::string& where) {
  throw Error(ErrorKind::kPeer, {.what = "a message header is invalid: " + what, .where = where});
}

FrameHead read_head(Unpacker& reader, const std::string& where) {
  const auto index = reader.take<std::size_t>();
  if (index == 0) {
    MessageHead head;
    head.source = reader.take<int>();
    head.destination = reader.take<int>();
    const int kind = reader.take<int>();
    head.kind = static_cast<ChannelKind>(kind);
    if (head.kind != ChannelKind::kActivation && head.kind != ChannelKind::kGradient)
      refuse_frame("channel kind " + std::to_string(kind), where);
    head.tag.stage = reader.take<std::int32_t>();
    head.tag.microbatch = reader.take<std::int32_t>();
    head.tag.step = reader.take<std::int64_t>();
    return head;
  }
  if (index == 1) {
    CollectiveHead head;
    head.group = reader.take<std::string>();
    head.number = reader.take<std::uint64_t>();
    head.member = reader.take<int>();
    head.note.call = reader.take<std::string>();
    head.note.bytes = reader.take<std::string>();
    head.pieces = reader.take<std::vector<std::int64_t>>();
    return head;
  }
  if (index == 2) {
    AbortHead head;
    head.failure.rank = reader.take<int>();
    const int kind = reader.take<int>();
    if (kind < static_cast<int>(ErrorKind::kInternal) ||
        kind > static_cast<int>(ErrorKind::kMemory)) {
      refuse_frame("error kind " + std::to_string(kind), where);
    }
    head.failure.kind = static_cast<ErrorKind>(kind);
    head.failure.message = reader.take<std::string>();
    return head;
  }
  if (index == 3) return GoodbyeHead{};
  refuse_frame("frame of kind " + std::to_string(index), where);
}

}  // namespace

std::string write_outline(const FrameHead& head, const std::vector<TensorLayout>& layouts) {
  Packer writer;
  writer.add(head.index());
  std::visit(Match{[&](const MessageHead& message) {
                     writer.add(message.source)
                         .add(message.destination)
                         .add(static_cast<int>(message.kind))
                         .add(message.tag.stage)
                         .add(message.tag.microbatch)
                         .add(message.tag.step);
                   },
                   [&](const CollectiveHead& collective) {
                     writer.add(collective.group)
                         .add(collective.number)
                         .add(collective.member)
                         .add(collective.note.call)
                         .add(collective.note.bytes)
                         .add(collective.pieces);
                   },
                   [&](const AbortHead& abort) {
                     writer.add(abort.failure.rank)
                         .add(static_cast<int>(abort.failure.kind))
                         .add(abort.failure.message);
                   },
                   [](const GoodbyeHead&) {}},
             head);
  writer.add(layouts.size());
  for (const TensorLayout& layout : layouts) layout.write(writer);
  return writer.bytes();
}

FrameOutline read_outline(std::string bytes, const std::string& where) {
  Unpacker reader(std::move(bytes), where);
  FrameOutline outline{read_head(reader, where), {}};
  const auto count = reader.take<std::size_t>();
  if (count > kMaxTensors) refuse_frame(std::to_string(count) + " tensors", where);
  for (std::size_t i = 0; i < count; ++i)
    outline.layouts.push_back(TensorLayout::read(reader, where));
  reader.finish();
  if (const auto* collective = std::get_if<CollectiveHead>(&outline.head)) {
    for (const std::int64_t piece : collective->pieces) {
      if (piece < -1 || piece >= static_cast<std::int64_t>(count))
        refuse_frame(formatted("piece {} of {}", piece, count), where);
    }
  }
  return outline;
}

}  // namespace sluice
