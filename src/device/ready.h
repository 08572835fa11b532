// Orders work between streams when a rank passes tensors to another rank's device.
//
// The sender calls ready_now() after queuing the work that computes the tensors. The receiver calls
// take_over(). Copies between devices run on side streams, so they wait only for the work they
// need.
//
// Only wait_here() blocks the host. CPU tensors need no events. A Ready may move between threads.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <memory>
#include <vector>

namespace sluice {

// Marks the work queued so far on the current streams of some devices.
class Ready {
 public:
  Ready() = default;  // marks no work

  bool is_now() const { return events_.empty(); }
  // Makes the stream wait for the marked work.
  void wait_on(const c10::Stream& stream) const;
  // Blocks this thread until the marked work is done.
  void wait_here() const;
  // Whether the marked work is done.
  bool has_happened() const;

 private:
  friend Ready ready_now(const std::vector<at::Tensor>& tensors);
  friend at::Tensor to_host(const at::Tensor& tensor, Ready& arrived);
  std::vector<std::shared_ptr<c10::Event>> events_;
};

Ready ready_now(const std::vector<at::Tensor>& tensors);

// Moves tensors to `device`, for this thread's current stream. CPU tensors stay on the CPU, and
// nothing moves to the CPU. Copies keep requires_grad.
void take_over(std::vector<at::Tensor>& tensors, const Ready& ready, at::Device device);

// Copies to page-locked host memory on a side stream, without blocking. Adds the end of the copy to
// `arrived`.
at::Tensor to_host(const at::Tensor& tensor, Ready& arrived);

// Returns this thread's side stream (for copies) of the device.
c10::Stream side_stream(at::Device device);

}  // namespace sluice
