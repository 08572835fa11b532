// Records what happens to tensors without memory, so that those that are kept can get their numbers
// later.
//
// While a Tape lives, its thread makes tensors without explicit device on the meta device.
// Operators on them only compute sizes and types, and are recorded. The tape tracks storages, so
// views and in-place writes need no special care. Code that needs numbers (item(), nonzero(), a
// write to a tensor with memory) makes the recorded operators run at once. Random numbers are drawn
// in the original order from the original generators, so values do not change. Unused ones are
// drawn in small pieces, and only if later ones are needed.
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

  // Ends the recording. Held tensors remain the same variables. A tensor that others with numbers
  // depend on gets numbers instead of memory only. A tensor that shares storage with one that gets
  // nothing gets nothing. Throws c10::Error for a tensor with a graph.
  void finish(const std::function<Gets(const at::Tensor& tensor)>& gets);

 private:
  class Notes;
  friend class TapeKernels;
  std::unique_ptr<Notes> notes_;
};

// Gives the variable another tensor's memory, device and strides. Variable::set_data refuses to
// change from or to the meta device.
void replace_tensor_data(const at::Tensor& variable, const at::Tensor& memory);

}  // namespace sluice
