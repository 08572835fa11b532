// Tensors without memory, and what happens to them, so that those that are kept can get both their
// memory and their numbers afterwards.
//
// While a Tape lives, its thread makes tensors whose device is not said on the meta device, and
// operators on these are noted in place of being run: sizes and types are theirs, numbers are not
// there. A tensor is known by its storage, so that views and writes in place need nothing of their
// own. Where code asks for numbers (item(), nonzero(), a write to a tensor that has memory) what
// made them is run at once. Random numbers are drawn in the order in which the code asked for them,
// from the generators that it had, so that all numbers are those that it makes with memory; what
// nobody needs is drawn only if something behind it is needed, and then in small pieces.
//
// Owns: the notes. Does not own: the tensors, generators.
// Thread-safety: a Tape belongs to the thread that made it, and is the innermost of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace sluice {

class Tape {
 public:
  // The replacement of a tensor that is held by somebody at the end.
  enum class Gets { kNothing, kMemory, kNumbers };

  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // True if this thread has one.
  static bool is_recording();

  // Ends the recording. Tensors without memory that are alive stay the same variables. One that
  // others which get numbers were made of, or with, gets numbers for memory, too; one that shares
  // storage with one that gets nothing gets nothing. Throws c10::Error for one with a graph behind
  // it.
  void finish(const std::function<Gets(const at::Tensor& tensor)>& gets);

 private:
  class Notes;
  friend class TapeKernels;
  std::unique_ptr<Notes> notes_;
};

// Takes another tensor's memory, device and strides; the variable stays. (Variable::set_data, which
// would do the same, refuses to come from or go to the meta device.)
void put_in_place(const at::Tensor& variable, const at::Tensor& memory);

}  // namespace sluice
