// The tensors from which a caller makes its optimizer. They are this rank's parameters or, with
// zero1 and zero3, the blocks that this replica owns, as leaf tensors.
//
// A write to a block outside of Pipeline::step() would not reach the other replicas. This class
// detects such writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/own_blocks.h"

namespace torch::optim {
class Optimizer;
}

namespace sluice {

class CallersParameters {
 public:
  // rank: must have its parameters and outlive this object. are_callers: false if the optimizer is
  // sluice's own. Then all tensors are whole parameters.
  CallersParameters(const RankModel& rank, bool are_callers);

  const std::vector<OwnBlocks>& all() const { return blocks_; }
  bool are_blocks() const { return are_blocks_; }
  // Returns the tensor of a use on this rank; undefined if the use is frozen.
  at::Tensor of(const std::string& use) const;

  // Returns the full parameter name of one of these tensors.
  const std::string& name_of(const at::Tensor& own) const;

  // Call this after the parameters have moved to another device.
  void make_anew();
  // Records that all replicas have the current values of the blocks.
  void settle();
  // Throws Error(kUsage), naming `call`, if a block was written to since settle(). Compares version
  // counters and a hash of some elements, because SGD's writes do not advance the counters.
  void require_settled(const char* call) const;
  // Throws Error(kUsage) if the optimizer holds other tensors. With blocks it also throws for an
  // optimizer that is not known to work element by element.
  void require_fits(const torch::optim::Optimizer& optimizer, const std::string& where) const;

 private:
  struct Mark {
    std::int64_t of_block = 0, of_parameter = 0;  // version counters
    std::string hash;                             // hash of some elements
  };
  static Mark mark_of(const OwnBlocks& own);

  const RankModel& rank_;
  const bool are_blocks_;
  std::vector<OwnBlocks> blocks_;
  std::vector<Mark> marks_;  // one per block
};

// Throws Error(kUsage) for an optimizer whose step() needs a closure.
void require_no_closure(const torch::optim::Optimizer& optimizer, const std::string& where);

}  // namespace sluice
