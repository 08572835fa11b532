#include "train/replica_sums.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <utility>

#include "optim/packed_parts.h"
#include "plan/data_parallel.h"
#include "plan/shard_tree.h"

namespace sluice {
namespace {

using detail::ShardRange;
using Ranges = std::vector<ElementRange>;
using Tensors = std::vector<at::Tensor>;

at::ScalarType sum_type(const at::Tensor& parameter) {
  return at::isReducedFloatingType(parameter.scalar_type()) ? at::kFloat : parameter.scalar_type();
}

at::Tensor part_of(const at::Tensor& whole, const ElementRange& range) {
  return whole.defined() ? whole.view(-1).narrow(0, range.begin, range.size()) : whole;
}

// A gradient sum over some shards of the global batch. own: this replica may overwrite `sum`.
struct Term {
  ShardRange shards;
  at::Tensor sum;
  bool own = false;
};

// Adds the terms in tree order. Returns undefined if all terms are undefined.
at::Tensor add_up(std::vector<Term> terms, int num_shards) {
  const ShardRange all{0, num_shards};
  std::vector<Term> stack;
  for (Term& term : terms) {
    const int additions = detail::num_additions_after(term.shards, all, num_shards);
    stack.push_back(std::move(term));
    for (int i = 0; i < additions; ++i) {
      Term right = std::move(stack.back());
      stack.pop_back();
      Term& left = stack.back();
      if (!left.sum.defined()) {
        left = std::move(right);
      } else if (right.sum.defined()) {
        if (left.own) {
          left.sum.add_(right.sum);
        } else if (right.own) {
          at::add_out(right.sum, left.sum, right.sum);
          left = std::move(right);
        } else {
          left = {left.shards, left.sum + right.sum, true};
        }
      }
    }
  }
  return stack.back().sum;
}

// The parameters of a stage that the same ranks hold.
struct StageParts {
  Stage& stage;
  const Holders holders;
  const int num_shards;
  std::vector<std::size_t> trainable;
  std::vector<std::vector<Ranges>> rounds_;  // [owner][round]
  std::size_t num_rounds = 0;
  Tensors sums;
  int num_microbatches = 0;

  StageParts(Stage& of, const BlockOwners& owners, const RunGroups& groups, bool are_experts,
             int shards)
      : stage(of), holders(groups.holders_of(are_experts)), num_shards(shards) {
    for (std::size_t i = 0; i < of.parameters().size(); ++i) {
      const ParameterInfo& info = of.parameters()[i];
      if (info.trainable && info.of_expert == are_experts) trainable.push_back(i);
    }
    for (int holder = 0; holder < holders.count; ++holder) {
      const int replica = groups.replica_of_holder(are_experts, holder);
      Ranges owned = owners.of_stage(of.index())[static_cast<std::size_t>(replica)];
      std::erase_if(owned, [&](const ElementRange& range) {
        return of.parameters()[range.parameter].of_expert != are_experts;
      });
      rounds_.push_back(into_rounds(owned));
      num_rounds = std::max(num_rounds, rounds_.back().size());
    }
  }

  const at::Tensor& parameter(std::size_t index) const { return stage.parameters()[index].tensor; }
  at::Device device() const { return parameter(trainable.front()).device(); }
  PartMeta meta(const ElementRange& range) const {
    return {range.size(), sum_type(parameter(range.parameter))};
  }
  const Ranges& ranges(int owner, std::size_t round) const {
    static const Ranges none;
    const auto& rounds = rounds_[static_cast<std::size_t>(owner)];
    return round < rounds.size() ? rounds[round] : none;
  }
  at::Tensor new_gradient(std::size_t index) const {
    const at::Tensor& like = parameter(index);
    return at::empty(like.sizes(), like.options().dtype(sum_type(like)).requires_grad(false));
  }

 private:
  std::vector<Ranges> into_rounds(const Ranges& owned) const {
    std::vector<Ranges> rounds;
    std::int64_t bytes = kBucketBytes;
    for (const ElementRange& range : owned) {
      const PartMeta part = meta(range);
      const std::int64_t size =
          part.numel * static_cast<std::int64_t>(c10::elementSize(part.dtype));
      if (bytes + size > kBucketBytes) {
        rounds.emplace_back();
        bytes = 0;
      }
      rounds.back().push_back(range);
      bytes += size;
    }
    return rounds;
  }
};

using Works = std::vector<Work<Tensors>>;

// Returns this replica's sums as [parameter][subtree of shards]. A single microbatch's gradient is
// moved out of the stage, which starts a new sum.
std::vector<Tensors> take_partial(StageParts& of, bool of_microbatch) {
  std::vector<Tensors> partial(of.stage.parameters().size());
  for (const std::size_t i : of.trainable) {
    if (of_microbatch) {
      partial[i].push_back(std::exchange(of.stage.gradient(i), {}));
    } else {
      partial[i] = of.stage.partial_gradients(i);
    }
  }
  return partial;
}

}  // namespace

struct ReplicaSums::Impl {
  const Program& program;
  const RunGroups groups;
  const DataParallel how;
  std::function<bool(int, std::size_t)> needs_whole;
  std::map<int, std::vector<StageParts>> stages;

  Impl(const Program& the_program, const std::vector<Stage*>& the_stages, const BlockOwners& owners,
       RunGroups the_groups, const DataParallel& the_way,
       std::function<bool(int, std::size_t)> whole)
      : program(the_program),
        groups(std::move(the_groups)),
        how(the_way),
        needs_whole(std::move(whole)) {
    const int num_shards = detail::sums_in_shards(how) ? how.num_shards() : groups.num_replicas;
    for (Stage* stage : the_stages) {
      std::vector<StageParts>& parts = stages[stage->index()];
      parts.emplace_back(*stage, owners, groups, /*are_experts=*/false, num_shards);
      // The replicas that share experts have one gradient sum of each expert together.
      if (groups.expert_holders.count > 1 && groups.num_experts_ranks > 1)
        parts.emplace_back(*stage, owners, groups, /*are_experts=*/true,
                           groups.expert_holders.count);
    }
  }

  static std::vector<ShardRange> subtrees_of(const StageParts& of, int holder) {
    return detail::largest_subtrees(
        detail::shards_of_replica(holder, of.holders.count, of.num_shards), of.num_shards);
  }
  bool is_gathered(const StageParts& of, const ElementRange& range) const {
    return !needs_whole || needs_whole(of.stage.index(), range.parameter);
  }

  Work<void> reduce_exactly(StageParts& of, std::optional<int> microbatch) {
    auto partial = std::make_shared<std::vector<Tensors>>(take_partial(of, microbatch.has_value()));
    auto exchanges = std::make_shared<Works>();
    for (std::size_t round = 0; round < of.num_rounds; ++round) {
      Tensors pieces(static_cast<std::size_t>(of.holders.count));
      for (int owner = 0; owner < of.holders.count; ++owner) {
        if (owner == of.holders.index) continue;
        Tensors parts;
        for (const ElementRange& range : of.ranges(owner, round)) {
          for (const at::Tensor& sum : (*partial)[range.parameter])
            parts.push_back(part_of(sum, range));
        }
        pieces[static_cast<std::size_t>(owner)] = pack_parts(parts, of.device());
      }
      exchanges->push_back(of.holders.group.all_to_all(std::move(pieces)));
    }
    return Work<void>([this, &of, microbatch, partial, exchanges] {
      const at::NoGradGuard no_grad;
      Tensors gradients(partial->size());
      Works gatherings;
      for (std::size_t round = 0; round < of.num_rounds; ++round) {
        Tensors pieces = (*exchanges)[round].wait();
        const Tensors back = add_own(of, round, *partial, pieces, gradients);
        const at::Tensor memory = take_one(of, pieces);
        gatherings.push_back(of.holders.group.all_gather(pack_parts(back, of.device(), memory)));
      }
      for (std::size_t round = 0; round < of.num_rounds; ++round)
        put_gathered(of, round, gatherings[round].wait(), *partial, gradients);
      keep(of, microbatch, std::move(gradients));
    });
  }

  // Returns one received tensor for reuse of its memory, and frees the others.
  static at::Tensor take_one(const StageParts& of, Tensors& pieces) {
    at::Tensor taken;
    for (int giver = 0; giver < of.holders.count && !taken.defined(); ++giver) {
      if (giver != of.holders.index) taken = std::move(pieces[static_cast<std::size_t>(giver)]);
    }
    pieces.clear();
    return taken;
  }

  // Returns this range of the final gradient. Reuses the memory of a partial sum of this replica if
  // possible.
  static at::Tensor place(const StageParts& of, const ElementRange& range,
                          const std::vector<Tensors>& partial, Tensors& gradients) {
    at::Tensor& gradient = gradients[range.parameter];
    if (!gradient.defined()) {
      const Tensors& own = partial[range.parameter];
      const auto some =
          std::find_if(own.begin(), own.end(), [](const at::Tensor& sum) { return sum.defined(); });
      gradient = some != own.end() ? *some : of.new_gradient(range.parameter);
    }
    return part_of(gradient, range);
  }

  // Adds the partial sums that all replicas computed for the blocks that this replica owns. Returns
  // those of the sums that the other replicas will receive.
  Tensors add_own(const StageParts& of, std::size_t round, const std::vector<Tensors>& partial,
                  const Tensors& pieces, Tensors& gradients) const {
    const Ranges& own = of.ranges(of.holders.index, round);
    std::vector<std::vector<Term>> terms(own.size());
    for (int giver = 0; giver < of.holders.count; ++giver) {
      const std::vector<ShardRange> subtrees = subtrees_of(of, giver);
      const bool is_own = giver == of.holders.index;
      Tensors given;
      if (!is_own) {
        std::vector<PartMeta> metas;
        for (const ElementRange& range : own)
          metas.insert(metas.end(), subtrees.size(), of.meta(range));
        given = unpack_parts(pieces[static_cast<std::size_t>(giver)], metas);
      }
      for (std::size_t r = 0; r < own.size(); ++r) {
        for (std::size_t t = 0; t < subtrees.size(); ++t) {
          at::Tensor sum = is_own ? part_of(partial[own[r].parameter][t], own[r])
                                  : given[r * subtrees.size() + t];
          terms[r].push_back({subtrees[t], std::move(sum), is_own});
        }
      }
    }
    Tensors back;
    for (std::size_t r = 0; r < own.size(); ++r) {
      at::Tensor sum = add_up(std::move(terms[r]), of.num_shards);
      if (sum.defined()) {
        const at::Tensor part = place(of, own[r], partial, gradients);
        if (part.data_ptr() != sum.data_ptr()) part.copy_(sum);
        sum = part;
      }
      if (is_gathered(of, own[r])) back.push_back(sum);
    }
    return back;
  }

  void put_gathered(const StageParts& of, std::size_t round, const Tensors& gathered,
                    const std::vector<Tensors>& partial, Tensors& gradients) const {
    for (int owner = 0; owner < of.holders.count; ++owner) {
      if (owner == of.holders.index) continue;
      Ranges ranges;
      std::vector<PartMeta> metas;
      for (const ElementRange& range : of.ranges(owner, round)) {
        if (!is_gathered(of, range)) continue;
        ranges.push_back(range);
        metas.push_back(of.meta(range));
      }
      const Tensors parts = unpack_parts(gathered[static_cast<std::size_t>(owner)], metas);
      for (std::size_t r = 0; r < ranges.size(); ++r) {
        if (parts[r].defined()) place(of, ranges[r], partial, gradients).copy_(parts[r]);
      }
    }
  }

  // All-reduces gradients in buckets of one dtype. A bucket starts with the number of replicas that
  // have each gradient.
  Work<void> reduce_fast(StageParts& of, std::optional<int> microbatch) {
    auto partial = std::make_shared<std::vector<Tensors>>(take_partial(of, microbatch.has_value()));
    struct Bucket {
      std::vector<std::size_t> parameters;
      at::ScalarType dtype;
      std::int64_t numel = 0;
    };
    std::vector<Bucket> buckets;
    for (const std::size_t i : of.trainable) {
      const at::ScalarType dtype = sum_type(of.parameter(i));
      const std::int64_t most = kBucketBytes / static_cast<std::int64_t>(c10::elementSize(dtype));
      const std::int64_t numel = of.parameter(i).numel();
      if (buckets.empty() || buckets.back().dtype != dtype || buckets.back().numel + numel > most)
        buckets.push_back({{}, dtype});
      buckets.back().parameters.push_back(i);
      buckets.back().numel += numel;
    }
    auto works = std::make_shared<std::vector<Work<at::Tensor>>>();
    for (const Bucket& bucket : buckets) {
      const auto count = static_cast<std::int64_t>(bucket.parameters.size());
      at::Tensor flat =
          at::zeros({count + bucket.numel}, at::TensorOptions(of.device()).dtype(bucket.dtype));
      std::int64_t at = count;
      for (std::int64_t k = 0; k < count; ++k) {
        const std::size_t i = bucket.parameters[static_cast<std::size_t>(k)];
        const at::Tensor& sum = (*partial)[i].front();
        const std::int64_t numel = of.parameter(i).numel();
        if (sum.defined()) {
          flat.narrow(0, k, 1).fill_(1);
          flat.narrow(0, at, numel).copy_(sum.view(-1));
        }
        at += numel;
      }
      works->push_back(of.holders.group.all_reduce(flat));
    }
    return Work<void>([this, &of, microbatch, partial, works, buckets = std::move(buckets)] {
      const at::NoGradGuard no_grad;
      Tensors gradients(partial->size());
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        const at::Tensor flat = (*works)[b].wait();
        const auto count = static_cast<std::int64_t>(buckets[b].parameters.size());
        const at::Tensor givers = flat.narrow(0, 0, count).to(at::kCPU, at::kDouble);
        std::int64_t at = count;
        for (std::int64_t k = 0; k < count; ++k) {
          const std::size_t i = buckets[b].parameters[static_cast<std::size_t>(k)];
          const std::int64_t numel = of.parameter(i).numel();
          if (givers.const_data_ptr<double>()[k] > 0)
            place(of, {i, 0, numel}, *partial, gradients).copy_(flat.narrow(0, at, numel));
          at += numel;
        }
      }
      keep(of, microbatch, std::move(gradients));
    });
  }

  void keep(StageParts& of, std::optional<int> microbatch, Tensors gradients) {
    if (!microbatch) {
      for (const std::size_t i : of.trainable) of.stage.set_gradient(i, std::move(gradients[i]));
      return;
    }
    of.sums.resize(gradients.size());
    for (const std::size_t i : of.trainable) {
      if (!gradients[i].defined()) continue;
      if (of.sums[i].defined()) {
        of.sums[i].add_(gradients[i]);
      } else {
        of.sums[i] = std::move(gradients[i]);
      }
    }
    const int last = program.flow.num_passing(of.stage.index(), program.num_microbatches);
    if (++of.num_microbatches < last) return;
    for (const std::size_t i : of.trainable) of.stage.set_gradient(i, std::move(of.sums[i]));
    of.sums.clear();
    of.num_microbatches = 0;
  }
};

ReplicaSums::ReplicaSums(const Program& program, const std::vector<Stage*>& stages,
                         const BlockOwners& owners, RunGroups groups, const DataParallel& how,
                         std::function<bool(int, std::size_t)> needs_whole)
    : impl_(std::make_unique<Impl>(program, stages, owners, std::move(groups), how,
                                   std::move(needs_whole))) {}
ReplicaSums::~ReplicaSums() = default;

Work<void> ReplicaSums::reduce(int stage, std::optional<int> microbatch) {
  if (impl_->groups.num_replicas == 1) return Work<void>::done();
  const at::NoGradGuard no_grad;
  auto works = std::make_shared<std::vector<Work<void>>>();
  for (StageParts& of : impl_->stages.at(stage)) {
    if (of.trainable.empty()) continue;
    works->push_back(impl_->how.reduction == Reduction::kFast
                         ? impl_->reduce_fast(of, microbatch)
                         : impl_->reduce_exactly(of, microbatch));
  }
  return Work<void>([works] {
    for (Work<void>& work : *works) work.wait();
  });
}

}  // namespace sluice
