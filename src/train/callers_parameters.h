// The tensors that a caller's optimizer is made of: this rank's parameters, or, with zero1 and
// zero3, its replica's own blocks of them as leaves of their own.
//
// Owns: what tells that somebody has written to a block beside Pipeline::step(): the other replicas
// do not have it then. Does not own: `.grad` (grads.h), the update (callers_update.h).
// Thread-safety: one rank's thread.
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
  // rank: with its weights; it must outlive this. are_callers: else the optimizer is ours, and what
  // is shown are whole parameters.
  CallersParameters(const RankModel& rank, bool are_callers);

  const std::vector<OwnBlocks>& all() const { return blocks_; }
  bool are_blocks() const { return are_blocks_; }
  // The tensor of a use on this rank; undefined: it is frozen.
  at::Tensor of(const std::string& use) const;

  // Full, of one of these tensors.
  const std::string& name_of(const at::Tensor& own) const;

  // After the parameters have moved.
  void make_anew();
  // Declares that all replicas have what the blocks hold now.
  void settle();
  // Throws Error(kUsage), naming `call`, where a block was written to since. By the version
  // counters; SGD writes past them: some elements of each block tell.
  void require_settled(const char* call) const;
  // Throws Error(kUsage) for an optimizer that holds other tensors; with blocks also for one that
  // is not known to go element by element.
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
  std::vector<Mark> marks_;  // marks of the blocks
};

// Throws Error(kUsage) for an optimizer whose step() needs a closure.
void require_no_closure(const torch::optim::Optimizer& optimizer, const std::string& where);

}  // namespace sluice
