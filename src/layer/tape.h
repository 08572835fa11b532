// Records operators on tensors without memory, so that only tensors we keep are computed, later.
//
// While a Tape exists, its thread makes tensors without explicit device on the meta device.
// Operators on them are recorded and compute only sizes and types. The tape tracks storages, so
// views and in-place writes need no special care. Code that needs values (item(), nonzero(), a
// write to a tensor with memory) makes the recorded operators run at once. Random numbers are drawn
// in the original order from the original generators.
//
// A Tape belongs to its thread and must be the innermost one.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace sluice {

class Tape {
 public:
  enum class Gets { kNothing, kMemory, kNumbers };

  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  static bool is_recording();

  // Ends the recording and gives living tensors nothing, memory or values, as `gets` returns. They
  // remain the same variables. A tensor gets values instead of mere memory if tensors with values
  // depend on it. It gets nothing if it shares storage with a tensor that gets nothing. Throws
  // c10::Error for a tensor with a graph.
  void finish(const std::function<Gets(const at::Tensor& tensor)>& gets);

 private:
  class Notes;
  friend class TapeKernels;
  std::unique_ptr<Notes> notes_;
};

// Gives `variable` another tensor's memory, device and strides, even from or to the meta device,
// which Variable::set_data refuses.
void replace_tensor_data(const at::Tensor& variable, const at::Tensor& memory);

}  // namespace sluice
