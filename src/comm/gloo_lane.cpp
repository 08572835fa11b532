#include "comm/gloo_lane.h"

#include <ATen/Functions.h>
#include <c10/core/StreamGuard.h>

#include <cstring>
#include <memory>

#include "base/text.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

constexpr std::int64_t kHeaderBytes = 8192;
constexpr int kPostedHeaders = 4;  // posted in advance, so that headers find their receive
constexpr std::uint64_t kMagic = 0x31'65'63'69'75'6c'73'00;
constexpr std::uint64_t kMaxOutlineBytes = std::uint64_t{1} << 32;
// Gloo's timeout. It must not expire, because that breaks every connection of the group. abort()
// ends our waits.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }
int payload_tag(std::int64_t bytes) { return kPayloadTag + static_cast<int>(rounded(bytes) / 64); }

struct Prefix {
  std::uint64_t magic = kMagic;
  std::uint64_t outline_bytes = 0;
  std::uint64_t outline_inside = 0;
  std::uint64_t payload_inside = 0;
};

// Charges this thread's memory to the local ranks.
class CountsAs {
 public:
  explicit CountsAs(const LinkReceiver& receiver) : before_(Info::current()) {
    Info::_forceCurrentDebugInfo(receiver.counts_as());
  }
  ~CountsAs() { Info::_forceCurrentDebugInfo(before_); }
  CountsAs(const CountsAs&) = delete;
  CountsAs& operator=(const CountsAs&) = delete;

 private:
  using Info = c10::ThreadLocalDebugInfo;
  const std::shared_ptr<Info> before_;
};

struct ConnectionLost {
  std::string how;
};

}  // namespace

at::Tensor bytes_tensor(std::int64_t bytes) { return at::empty({bytes}, at::kByte); }

at::Tensor copied(const std::string& bytes) {
  at::Tensor tensor = bytes_tensor(static_cast<std::int64_t>(bytes.size()));
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::string text_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

std::string reason_of(const std::exception& error) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = c10_error ? c10_error->what_without_backtrace() : error.what();
  text = first_line(text);
  if (text.starts_with('[')) {
    if (const auto end = text.find("] "); end != std::string::npos) text = text.substr(end + 2);
  }
  return text;
}

void PeerLane::start(LinkReceiver& receiver) {
  receiver_ = &receiver;
  receiver_thread_ = std::thread([this, &receiver] { receive_frames(receiver); });
  reaper_thread_ = std::thread([this, &receiver] { release_sent(receiver); });
}

void PeerLane::send(const Frame& frame) {
  Outgoing outgoing;
  std::vector<TensorLayout> layouts;
  for (const at::Tensor& tensor : frame.tensors) {
    layouts.emplace_back(tensor);
    const TensorLayout& layout = layouts.back();
    if (goes_by_nccl(layout)) {
      outgoing.on_device.push_back(layout.flat(tensor));
    } else if (layout.num_bytes() > 0) {
      outgoing.payload_bytes += layout.num_bytes();
      outgoing.payloads.push_back(layout.flatten(tensor, outgoing.arrived));
    }
  }
  outgoing.computed = ready_now(outgoing.on_device);
  outgoing.outline = write_outline(frame.head, layouts);
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || ended_ || broken_) return;
    // A failure message has no tensors to wait for, so it overtakes other frames.
    const bool overtakes = std::holds_alternative<AbortHead>(frame.head);
    if (!outgoing.arrived.is_now() || !outgoing.on_device.empty() ||
        (!leaving_.empty() && !overtakes)) {
      if (!packer_thread_.joinable()) packer_thread_ = std::thread([this] { pack_arriving(); });
      leaving_.push_back(std::move(outgoing));
      changed_.notify_all();
      return;
    }
  }
  post(outgoing);
}

void PeerLane::pack_arriving() noexcept {
  constexpr std::chrono::microseconds kBetweenLooks{20};
  try {
    for (;;) {
      Outgoing* next = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !leaving_.empty() || stopping_; });
        if (stopping_) return;
        next = &leaving_.front();
      }
      while (!next->arrived.has_happened()) {
        std::this_thread::sleep_for(kBetweenLooks);
        const std::lock_guard lock(mutex_);
        if (stopping_) return;
      }
      // Send the header first. It makes the other process post the NCCL receive, without which the
      // NCCL send does not end.
      if (post(*next) && !next->on_device.empty())
        lane_.nccl->send(lane_.number, process_, next->on_device, next->computed);
      {
        const std::lock_guard lock(mutex_);
        leaving_.pop_front();
      }
      changed_.notify_all();
    }
  } catch (const NcclLink::Stopped&) {
    {
      const std::lock_guard lock(mutex_);
      leaving_.clear();
      closed_ = true;
    }
    changed_.notify_all();
  } catch (...) {
    receiver_->wrong(process_, std::current_exception());
  }
}

bool PeerLane::post(Outgoing& frame) {
  const std::string& outline = frame.outline;
  std::vector<at::Tensor>& payloads = frame.payloads;
  const std::int64_t payload_bytes = frame.payload_bytes;
  Prefix prefix;
  prefix.outline_bytes = outline.size();
  const auto with_outline = static_cast<std::int64_t>(sizeof prefix + outline.size());
  prefix.outline_inside = with_outline <= kHeaderBytes;
  prefix.payload_inside = prefix.outline_inside && with_outline + payload_bytes <= kHeaderBytes;

  at::Tensor header =
      bytes_tensor(prefix.payload_inside   ? with_outline + payload_bytes
                   : prefix.outline_inside ? with_outline
                                           : static_cast<std::int64_t>(sizeof prefix));
  auto* at = static_cast<char*>(header.mutable_data_ptr());
  const auto put = [&](const void* bytes, std::size_t size) {
    std::memcpy(at, bytes, size);
    at += size;
  };
  put(&prefix, sizeof prefix);
  if (prefix.outline_inside) put(outline.data(), outline.size());
  if (prefix.payload_inside) {
    for (const at::Tensor& payload : payloads) put(payload.const_data_ptr(), payload.nbytes());
  }

  const std::lock_guard lock(mutex_);
  if (ended_ || broken_) return false;
  try {
    if (!prefix.outline_inside) post_send(copied(outline));
    if (!prefix.payload_inside) {
      for (at::Tensor& payload : payloads) post_send(std::move(payload));
    }
    sending_.push_back(lane_.send(std::move(header), process_, kHeaderTag));
  } catch (const std::exception&) {
    broken_ = true;
  }
  changed_.notify_all();
  return !broken_;
}

void PeerLane::send_last(const Frame& frame) {
  send(frame);
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

bool PeerLane::flush(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(
      lock, until, [&] { return (sending_.empty() && leaving_.empty()) || broken_ || stopping_; });
}

void PeerLane::stop() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = stopping_ = true;
    for (const WorkPtr& work : sending_) work->abort();
    for (const WorkPtr& work : receiving_) work->abort();
  }
  changed_.notify_all();
  join();
}

std::vector<WorkPtr> PeerLane::leftovers() {
  std::vector<WorkPtr> works(sending_.begin(), sending_.end());
  works.insert(works.end(), receiving_.begin(), receiving_.end());
  sending_.clear();
  receiving_.clear();
  return works;
}

void PeerLane::post_send(at::Tensor bytes) {
  const int tag = payload_tag(static_cast<std::int64_t>(bytes.nbytes()));
  sending_.push_back(lane_.send(std::move(bytes), process_, tag));
}

std::optional<PeerLane::Receiving> PeerLane::post_receive(const at::Tensor& bytes, int tag) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return std::nullopt;
  try {
    return receiving_.insert(receiving_.end(), lane_.receive(bytes, process_, tag));
  } catch (const std::exception& error) {
    throw ConnectionLost{reason_of(error)};
  }
}

bool PeerLane::finish(std::optional<Receiving> receiving) {
  if (!receiving) return false;
  const WorkPtr work = **receiving;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
  }
  try {
    if (!work->wait(kForever)) return false;
  } catch (const std::exception& error) {
    throw ConnectionLost{reason_of(error)};
  }
  const std::lock_guard lock(mutex_);
  receiving_.erase(*receiving);
  return true;
}

void PeerLane::receive_frames(LinkReceiver& receiver) noexcept {
  try {
    struct Posted {
      at::Tensor bytes;
      std::optional<Receiving> receiving;
    };
    std::deque<Posted> posted;
    // After the connection is lost, still read headers that arrived before. One may be a goodbye.
    const auto post = [&](const at::Tensor& bytes) {
      try {
        posted.push_back({bytes, post_receive(bytes, kHeaderTag)});
      } catch (const ConnectionLost&) {
        if (posted.empty()) throw;
      }
    };
    for (int i = 0; i < kPostedHeaders; ++i) post(bytes_tensor(kHeaderBytes));
    // Restore tensors on the stream of their NCCL receives, so that restoring waits for them.
    std::unique_ptr<c10::StreamGuard> on_stream;
    if (lane_.nccl) {
      on_stream =
          std::make_unique<c10::StreamGuard>(lane_.nccl->stream_from(lane_.number, process_));
    }
    for (;;) {
      Posted first = std::move(posted.front());
      posted.pop_front();
      if (!finish(first.receiving)) return;
      std::optional<Frame> frame;
      {
        const CountsAs ranks(receiver);
        frame = take_frame(first.bytes, receiver);
      }
      if (!frame) return;
      post(first.bytes);
      const CountsAs ranks(receiver);
      receiver.deliver(process_, std::move(*frame));
    }
  } catch (const ConnectionLost& lost) {
    {
      const std::lock_guard lock(mutex_);
      broken_ = true;
      if (closed_ || ended_) {
        changed_.notify_all();
        return;
      }
    }
    changed_.notify_all();
    receiver.lost(process_, lost.how);
  } catch (const NcclLink::Stopped&) {
  } catch (...) {
    receiver.wrong(process_, std::current_exception());
  }
}

std::optional<Frame> PeerLane::take_frame(const at::Tensor& header, LinkReceiver& receiver) {
  const auto* at = static_cast<const char*>(header.const_data_ptr());
  Prefix prefix;
  std::memcpy(&prefix, at, sizeof prefix);
  at += sizeof prefix;
  const std::uint64_t room = kHeaderBytes - sizeof prefix;
  const bool sane = prefix.magic == kMagic && prefix.outline_inside <= 1 &&
                    prefix.payload_inside <= prefix.outline_inside &&
                    prefix.outline_bytes <= (prefix.outline_inside ? room : kMaxOutlineBytes);
  if (!sane) {
    throw Error(ErrorKind::kPeer, {.what = "a message header is invalid: sluice did not send it",
                                   .where = "from " + name_});
  }
  std::string text;
  if (prefix.outline_inside) {
    text.assign(at, prefix.outline_bytes);
    at += prefix.outline_bytes;
  } else {
    const auto size = static_cast<std::int64_t>(prefix.outline_bytes);
    const at::Tensor bytes = bytes_tensor(rounded(size));
    if (!finish(post_receive(bytes, payload_tag(size)))) return std::nullopt;
    text = text_of(bytes).substr(0, prefix.outline_bytes);
  }
  FrameOutline outline = read_outline(std::move(text), "from " + name_);
  if (std::holds_alternative<GoodbyeHead>(outline.head)) {
    end();
    return std::nullopt;
  }
  if (const auto* abort = std::get_if<AbortHead>(&outline.head)) {
    end();
    receiver.aborted(abort->failure);
    return std::nullopt;
  }
  receiver.check(process_, outline);
  if (prefix.payload_inside) {
    std::int64_t inside = 0;
    for (const TensorLayout& layout : outline.layouts) {
      if (!goes_by_nccl(layout)) inside += layout.num_bytes();
      if (inside > static_cast<std::int64_t>(room - prefix.outline_bytes)) {
        throw Error(ErrorKind::kPeer,
                    {.what = "a message header is invalid: its tensors are longer than the message",
                     .where = "from " + name_});
      }
    }
  }

  const at::Device device = receiver.device_for(outline.head);
  std::vector<at::Tensor> arrived, on_device;
  std::vector<std::int64_t> device_bytes;
  std::vector<std::optional<Receiving>> receives;
  for (const TensorLayout& layout : outline.layouts) {
    arrived.push_back(!layout.defined()      ? at::Tensor()
                      : goes_by_nccl(layout) ? layout.allocate(device)
                                             : layout.allocate());
    if (layout.num_bytes() == 0) continue;
    if (goes_by_nccl(layout)) {
      on_device.push_back(arrived.back());
      device_bytes.push_back(layout.num_bytes());
      continue;
    }
    if (prefix.payload_inside) {
      std::memcpy(arrived.back().mutable_data_ptr(), at,
                  static_cast<std::size_t>(layout.num_bytes()));
      at += layout.num_bytes();
    } else {
      receives.push_back(post_receive(arrived.back(), payload_tag(layout.num_bytes())));
    }
  }
  if (!on_device.empty()) lane_.nccl->receive(lane_.number, process_, on_device, device_bytes);
  for (const std::optional<Receiving>& receiving : receives) {
    if (!finish(receiving)) return std::nullopt;
  }
  Frame frame{std::move(outline.head), {}};
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    const TensorLayout& layout = outline.layouts[i];
    frame.tensors.push_back(layout.defined() ? layout.restore(arrived[i], device) : at::Tensor());
  }
  return frame;
}

void PeerLane::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (lane_.nccl) lane_.nccl->gone(lane_.number, process_);
}

void PeerLane::release_sent(const LinkReceiver& receiver) noexcept {
  for (;;) {
    WorkPtr work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !sending_.empty() || stopping_; });
      if (stopping_) return;
      work = sending_.front();
    }
    bool sent = false;
    try {
      sent = work->wait(kForever);
    } catch (const std::exception&) {
    }
    {
      const std::lock_guard lock(mutex_);
      if (sent) {
        const CountsAs ranks(receiver);
        work.reset();
        sending_.pop_front();
      } else {
        broken_ = true;
      }
    }
    changed_.notify_all();
    if (!sent) return;
  }
}

void PeerLane::join() {
  if (receiver_thread_.joinable()) receiver_thread_.join();
  if (reaper_thread_.joinable()) reaper_thread_.join();
  if (packer_thread_.joinable()) packer_thread_.join();
}

}  // namespace sluice::detail
