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

// Gathers the gradients of all uses in layer order. Round n gathers each rank's n-th use.
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

PartMeta meta_of_gradient(const at::Tensor& value) {
  const bool is_half = at::isReducedFloatingType(value.scalar_type());
  return {value.numel(), is_half ? at::kFloat : value.scalar_type()};
}

// Copies the sum into the memory of a local use's gradient, so that weights that slices share, such
// as experts, need no more memory. Returns the sum itself if no local use has a gradient.
at::Tensor in_memory_of_gradient(const SharedParameter& parameter, const at::Tensor& sum) {
  for (const ParameterUse& use : parameter.uses) {
    if (!sum.defined() || !use.stage || !use.gradient().defined()) continue;
    return use.gradient().is_same(sum) ? sum : use.gradient().copy_(sum);
  }
  return sum;
}

at::Tensor sum_of(const SharedParameter& parameter, const std::vector<at::Tensor>& gradients) {
  return sum_in_order(gradients, parameter.local_use()->value().device());
}

}  // namespace

TiedSums::TiedSums(const Program& program, const std::vector<SharedParameter>& parameters,
                   const RunGroups& groups)
    : program_(program), parameters_(parameters), rank_(groups.place()), shares_(groups.shares) {
  if (program.forward_only) return;
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
    put_sum(*parameter, sum_of(*parameter, gathering->wait()));
  });
}

void TiedSums::sum_remaining_ties() {
  for (const SharedParameter& parameter : parameters_) {
    const bool tied_here = parameter.uses.size() > 1 && parameter.ranks.size() == 1 &&
                           parameter.local_use() && !parameter.is_shared_by_slices;
    if (tied_here && !summed_.count(parameter.name))
      put_sum(parameter, sum_of(parameter, TiedGathering(parameter, rank_).wait()));
  }
  sum_slices();
}

void TiedSums::sum_slices() {
  std::vector<SliceBucket> buckets;
  std::int64_t bytes = kBucketBytes;
  for (const SharedParameter& parameter : parameters_) {
    if (!parameter.has_partial_sums() || !parameter.local_use() || summed_.count(parameter.name))
      continue;
    const PartMeta meta = meta_of_gradient(parameter.local_use()->value());
    const std::int64_t size = meta.numel * static_cast<std::int64_t>(c10::elementSize(meta.dtype));
    if (bytes + size > kBucketBytes) {
      buckets.emplace_back();
      bytes = 0;
    }
    bytes += size;
    buckets.back().parameters.push_back(&parameter);
    buckets.back().metas.push_back(meta);
  }
  // Two buckets are in flight, so that the memory for other ranks' gradients stays small.
  for (std::size_t i = 0; i <= buckets.size(); ++i) {
    if (i < buckets.size()) begin_slices(buckets[i]);
    if (i > 0) finish_slices(buckets[i - 1]);
  }
}

void TiedSums::begin_slices(SliceBucket& bucket) const {
  for (const SharedParameter* parameter : bucket.parameters) {
    std::vector<at::Tensor> gradients;
    for (const ParameterUse& use : parameter->uses) gradients.push_back(use.gradient());
    bucket.own.push_back(gradients.size() == 1
                             ? gradients.front()
                             : sum_in_tree(gradients, parameter->local_use()->value().device()));
  }
  if (!shares_) return;
  std::vector<at::Tensor> parts;
  for (const at::Tensor& own : bucket.own)
    parts.push_back(own.defined() ? own.contiguous().view(-1) : at::Tensor());
  bucket.gathered.push_back(shares_.all_gather(
      pack_parts(parts, bucket.parameters.front()->local_use()->value().device())));
}

void TiedSums::finish_slices(SliceBucket& bucket) {
  std::vector<std::vector<at::Tensor>> of_share;
  for (Work<std::vector<at::Tensor>>& work : bucket.gathered)
    for (const at::Tensor& packed : work.wait())
      of_share.push_back(unpack_parts(packed, bucket.metas));
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    const SharedParameter& parameter = *bucket.parameters[i];
    at::Tensor sum = bucket.own[i];
    if (shares_) {
      std::vector<at::Tensor> terms;
      for (const auto& of_one : of_share) terms.push_back(of_one[i]);
      const at::Tensor& value = parameter.local_use()->value();
      sum = sum_in_tree(terms, value.device());
      if (sum.defined()) sum = sum.view(value.sizes());
    }
    put_sum(parameter, in_memory_of_gradient(parameter, sum));
  }
  bucket = {};
}

void TiedSums::put_sum(const SharedParameter& parameter, const at::Tensor& sum) {
  for (const ParameterUse& use : parameter.uses) {
    if (use.stage) use.gradient() = sum;
  }
  summed_.insert(parameter.name);
}

}  // namespace sluice
