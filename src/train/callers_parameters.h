// The tensors for a caller's optimizer: this rank's parameters or, with zero1 and zero3, its
// replica's own blocks as leaves. Detects writes to blocks outside of Pipeline::update(), which do
// not reach other replicas.
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
  // are_callers: false if the optimizer is sluice's; all tensors are then whole.
  CallersParameters(const RankModel& rank, bool are_callers);

  const std::vector<OwnBlocks>& all() const { return blocks_; }
  bool are_blocks() const { return are_blocks_; }
  // Returns an undefined tensor if the use is frozen.
  at::Tensor of(const std::string& use) const;

  const std::string& name_of(const at::Tensor& own) const;

  // Call this after the parameters have moved.
  void make_anew();
  // Records that all replicas have the current values.
  void settle();
  // Throws Error(kUsage) if a block was written to since settle(). Compares version counters and
  // some elements, because SGD does not advance the counters.
  void require_settled(const char* call) const;
  // Throws Error(kUsage) if the optimizer holds other tensors or, with blocks, may not work element
  // by element.
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
