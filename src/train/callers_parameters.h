// The tensors for a user's optimizer. They are this rank's parameters or, with zero1 and zero3,
// leaf tensors of the parameter blocks that this replica owns. Detects writes to blocks outside of
// Pipeline::update(), because they do not reach other replicas.
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
  // are_callers: true if the user has the optimizer. If sluice has it, all tensors are whole.
  CallersParameters(const RankModel& rank, bool are_callers);

  const std::vector<OwnBlocks>& all() const { return blocks_; }
  bool are_blocks() const { return are_blocks_; }
  // Returns an undefined tensor if this use of a parameter is frozen.
  at::Tensor of(const std::string& use) const;

  const std::string& name_of(const at::Tensor& own) const;

  // Makes the tensors again. Call this after the parameters' memory has moved.
  void make_anew();
  // Records that all replicas have the current values.
  void settle();
  // Throws Error(kUsage) if a block was written to since settle(). Compares version counters and
  // some elements, because SGD does not advance the counters.
  void require_settled(const char* call) const;
  // Throws Error(kUsage) if the optimizer holds other tensors than these, or holds blocks but may
  // not update element by element.
  void require_fits(const torch::optim::Optimizer& optimizer, const std::string& where) const;

 private:
  struct Mark {
    std::int64_t of_block = 0, of_parameter = 0;
    std::string hash;
  };
  static Mark mark_of(const OwnBlocks& own);

  const RankModel& rank_;
  const bool are_blocks_;
  std::vector<OwnBlocks> blocks_;
  std::vector<Mark> marks_;
};

void require_no_closure(const torch::optim::Optimizer& optimizer, const std::string& where);

}  // namespace sluice
