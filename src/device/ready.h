// The order between the streams of devices: what one rank hands over is used by another, on its own
// device, only when it is ready.
//
// A hand-over is: the giver, whose tensors are computed on its current streams, says ready_now();
// whoever takes them over says take_over(): copies between devices run on a stream of their own, so
// that they wait for what they need and for nothing that the giver computes afterwards, and the
// memory lives until they are done.
//
// Owns: events. Does not own: tensors, the way of a message.
//
// Invariants:
//  1. Only wait_here() waits on the host.
//  2. For tensors of the CPU there are no events: nothing happens.
//  3. A tensor that a copy reads has a reference more until the copy is done, as on the CPU one
//  that
//     is being sent: nobody else holds the only one, and writes to it.
// Thread-safety: a Ready may go from one thread to another.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <memory>
#include <vector>

namespace sluice {

// The work that the current streams of some devices have been given until now.
class Ready {
 public:
  Ready() = default;  // nothing to wait for

  bool is_now() const { return events_.empty(); }
  // The stream goes on only when that is done.
  void wait_on(const c10::Stream& stream) const;
  // This thread does.
  void wait_here() const;
  // True if that work is done; does not wait.
  bool has_happened() const;

 private:
  friend Ready ready_now(const std::vector<at::Tensor>& tensors);
  friend at::Tensor to_host(const at::Tensor& tensor, Ready& arrived);
  std::vector<std::shared_ptr<c10::Event>> events_;
};

Ready ready_now(const std::vector<at::Tensor>& tensors);

// The tensors on `device`, for the current stream of this thread. Those of the CPU stay there, and
// where `device` is the CPU nothing moves. A copy requires a gradient where its tensor does.
void take_over(std::vector<at::Tensor>& tensors, const Ready& ready, at::Device device);

// A copy of the tensor of a device in page-locked memory, on its way beside what the current stream
// is given from now on: it is there when `arrived`, which is added to, has happened.
at::Tensor to_host(const at::Tensor& tensor, Ready& arrived);

// A stream of this device beside the one that computes: always the same of a thread.
c10::Stream side_stream(at::Device device);

}  // namespace sluice
