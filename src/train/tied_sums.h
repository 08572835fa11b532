// The gradients of tied parameters: those of all uses added up in layer order, wherever the uses
// are; each use gets the sum.
//
// Does not own: gradients of single uses (Stage), which parameters there are (parameter_list.h).
// Thread-safety: one rank's thread.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "sluice/program.h"
#include "train/parameter_list.h"

namespace sluice {

class TiedSums {
 public:
  // References must outlive it and its works. Throws Error(kInternal) for a tie across ranks that
  // the program has no group for.
  TiedSums(const Program& program, const std::vector<SharedParameter>& parameters, int rank);

  // REDUCE_TIED; nothing for a frozen group.
  Work<void> reduce(int group);
  // True if the gradients of its uses are what they will be at the end of the step: a parameter of
  // one use, or summed already.
  bool is_summed(const SharedParameter& parameter) const {
    return parameter.uses.size() == 1 || summed_.contains(parameter.name);
  }
  // The ties within this rank that no REDUCE_TIED of the step was about: those within one stage are
  // no business of the program's.
  void sum_others();
  // Gradients of another step follow.
  void clear() { summed_.clear(); }

 private:
  const SharedParameter* parameter_of(int group) const;
  void put_sum(const SharedParameter& parameter, const std::vector<at::Tensor>& gradients);

  const Program& program_;
  const std::vector<SharedParameter>& parameters_;
  const int rank_;
  std::set<std::string> summed_;  // names, since clear()
};

}  // namespace sluice
