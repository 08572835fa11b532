#include "train/tied_sums.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/format.h"
#include "comm/sum_in_order.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// The gradients of all uses, in layer order: one round of gathering for the first use of every
// rank, one for the second, and so on.
class TiedGathering {
 public:
  TiedGathering(const SharedParameter& parameter, int rank)
      : parameter_(parameter), gradients_(parameter.uses.size()) {
    std::size_t num_rounds = 0;
    for (std::size_t u = 0; u < parameter.uses.size(); ++u) {
      std::vector<std::size_t>& of_rank = uses_of_rank_[parameter.uses[u].rank];
      of_rank.push_back(u);
      num_rounds = std::max(num_rounds, of_rank.size());
      if (parameter.uses[u].stage) gradients_[u] = parameter.uses[u].gradient();
    }
    if (!parameter.group) return;
    const std::vector<std::size_t>& own = uses_of_rank_[rank];
    for (std::size_t round = 0; round < num_rounds; ++round) {
      const at::Tensor mine = round < own.size() ? gradients_[own[round]] : at::Tensor();
      rounds_.push_back(parameter.group.all_gather(mine));
    }
  }

  const std::vector<at::Tensor>& wait() {
    for (std::size_t round = 0; round < rounds_.size(); ++round) {
      const std::vector<at::Tensor> gathered = rounds_[round].wait();
      for (std::size_t i = 0; i < gathered.size(); ++i) {
        const std::vector<std::size_t>& of_rank = uses_of_rank_[parameter_.ranks[i]];
        if (round < of_rank.size()) gradients_[of_rank[round]] = gathered[i];
      }
    }
    return gradients_;
  }

 private:
  const SharedParameter& parameter_;
  std::vector<at::Tensor> gradients_;
  std::map<int, std::vector<std::size_t>> uses_of_rank_;
  std::vector<Work<std::vector<at::Tensor>>> rounds_;
};

}  // namespace

TiedSums::TiedSums(const Program& program, const std::vector<SharedParameter>& parameters, int rank)
    : program_(program), parameters_(parameters), rank_(rank) {
  if (program.forward_only) return;  // no gradients
  for (const SharedParameter& parameter : parameters) {
    const bool has_group =
        std::any_of(program.tie_groups.begin(), program.tie_groups.end(),
                    [&](const TieGroup& group) { return group.name == parameter.name; });
    if (parameter.ranks.size() < 2 || has_group) continue;
    throw Error(ErrorKind::kInternal,
                {.what = formatted(
                     "parameter '{}' is used on {} ranks, but the program has no tie group for it",
                     parameter.name, parameter.ranks.size())});
  }
}

const SharedParameter* TiedSums::parameter_of(int group) const {
  const std::string& name = program_.tie_groups.at(group).name;
  const auto found =
      std::find_if(parameters_.begin(), parameters_.end(),
                   [&](const SharedParameter& parameter) { return parameter.name == name; });
  return found == parameters_.end() ? nullptr : &*found;
}

Work<void> TiedSums::reduce(int group) {
  const SharedParameter* parameter = parameter_of(group);
  if (!parameter) return Work<void>::done();
  auto gathering = std::make_shared<TiedGathering>(*parameter, rank_);
  return Work<void>([this, parameter, gathering = std::move(gathering)] {
    put_sum(*parameter, gathering->wait());
  });
}

void TiedSums::sum_others() {
  for (const SharedParameter& parameter : parameters_) {
    const bool tied_here =
        parameter.uses.size() > 1 && parameter.ranks.size() == 1 && parameter.local_use();
    if (tied_here && !summed_.count(parameter.name))
      put_sum(parameter, TiedGathering(parameter, rank_).wait());
  }
}

void TiedSums::put_sum(const SharedParameter& parameter, const std::vector<at::Tensor>& gradients) {
  const at::Tensor sum = sum_in_order(gradients, parameter.local_use()->value().device());
  for (const ParameterUse& use : parameter.uses) {
    if (use.stage) use.gradient() = sum;
  }
  summed_.insert(parameter.name);
}

}  // namespace sluice
