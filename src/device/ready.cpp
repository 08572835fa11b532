#include "device/ready.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

namespace sluice {
namespace {

c10::Stream current_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// Keeps a reference to each tensor that a side stream is still copying. The holder of the only
// reference may write to a tensor: LibTorch's engine then adds gradients in place.
class BeingRead {
 public:
  ~BeingRead() {
    for (const Read& read : reads_) read.tensor.record_stream(read.stream);
  }
  // Adds a tensor whose copy is queued on the stream. Returns an event for the end of the copy.
  std::shared_ptr<c10::Event> add(at::Tensor tensor, const c10::Stream& stream) {
    while (!reads_.empty() && reads_.front().done->query()) {
      reads_.front().done->synchronize();  // does not block, because the event is done
      reads_.pop_front();
    }
    auto done = std::make_shared<c10::Event>(tensor.device().type());
    done->record(stream);
    reads_.push_back({std::move(tensor), stream, done});
    return done;
  }

 private:
  struct Read {
    at::Tensor tensor;
    c10::Stream stream;
    std::shared_ptr<c10::Event> done;
  };
  std::deque<Read> reads_;
};
thread_local BeingRead being_read;

// Copies on a side stream of the source device. LibTorch queues copies on the source's current
// stream, and the destination's current stream waits.
at::Tensor moved(const at::Tensor& tensor, at::Device device) {
  const at::NoGradGuard no_grad;
  const c10::StreamGuard beside(side_stream(tensor.device()));
  at::Tensor copy = tensor.detach().to(device, /*non_blocking=*/true);
  being_read.add(tensor, beside.current_stream());
  return copy.set_requires_grad(tensor.requires_grad());
}

}  // namespace

void Ready::wait_on(const c10::Stream& stream) const {
  for (const auto& event : events_) event->block(stream);
}

void Ready::wait_here() const {
  for (const auto& event : events_) event->synchronize();
}

bool Ready::has_happened() const {
  return std::all_of(events_.begin(), events_.end(),
                     [](const auto& event) { return event->query(); });
}

Ready ready_now(const std::vector<at::Tensor>& tensors) {
  Ready ready;
  std::vector<at::Device> seen;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.is_cpu() || tensor.is_meta()) continue;
    const at::Device device = tensor.device();
    if (std::find(seen.begin(), seen.end(), device) != seen.end()) continue;
    seen.push_back(device);
    auto event = std::make_shared<c10::Event>(device.type());
    event->record(current_stream(device));
    ready.events_.push_back(std::move(event));
  }
  return ready;
}

void take_over(std::vector<at::Tensor>& tensors, const Ready& ready, at::Device device) {
  if (ready.is_now()) return;
  std::vector<at::Device> waited;
  for (at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.is_cpu() || tensor.is_meta()) continue;
    const bool moves = !device.is_cpu() && tensor.device() != device;
    const c10::Stream stream =
        moves ? side_stream(tensor.device()) : current_stream(tensor.device());
    if (std::find(waited.begin(), waited.end(), tensor.device()) == waited.end()) {
      ready.wait_on(stream);
      waited.push_back(tensor.device());
    }
    if (moves)
      tensor = moved(tensor, device);
    else
      tensor.record_stream(stream);
  }
}

at::Tensor to_host(const at::Tensor& tensor, Ready& arrived) {
  const at::NoGradGuard no_grad;
  at::Tensor host = at::empty_like(
      tensor, tensor.options().device(at::kCPU).pinned_memory(true).requires_grad(false));
  const c10::Stream stream = side_stream(tensor.device());
  ready_now({tensor}).wait_on(stream);
  const c10::StreamGuard beside(stream);
  host.copy_(tensor.detach(), /*non_blocking=*/true);
  arrived.events_.push_back(being_read.add(tensor, stream));
  return host;
}

c10::Stream side_stream(at::Device device) {
  static thread_local std::map<at::DeviceIndex, c10::Stream> streams;
  const auto found = streams.find(device.index());
  if (found != streams.end()) return found->second;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return streams.emplace(device.index(), guard.getStreamFromGlobalPool(device, true)).first->second;
}

}  // namespace sluice
