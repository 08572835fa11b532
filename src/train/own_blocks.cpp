#include "train/own_blocks.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

#include "optim/gather_blocks.h"

namespace sluice {
namespace {

bool is_sharded_use(const RankModel& rank, const ParameterUse& use) {
  return rank.sharded && rank.sharded->is_sharded(use.stage->index(), use.index);
}

void cut_out_own(const RankModel& rank, OwnBlocks& own) {
  const ParameterUse& use = *own.use;
  own.range = rank.owners.range(use.stage->index(), use.index, rank.groups.replica);
  if (is_sharded_use(rank, use)) {
    own.value = rank.sharded->own(use.stage->index(), use.index);
    own.is_part = own.range.has_value();
  } else if (!own.range) {
    own.value = at::empty({0}, use.value().detach().options());
  } else if (use.value().is_contiguous()) {
    own.value = elements_of(use.value(), *own.range);
    own.is_part = true;
  } else {
    own.value = use.value().detach();
  }
}

}  // namespace

OwnBlocks whole_of(const SharedParameter& parameter, const ParameterUse& use) {
  return {&parameter, &use, use.value(), ElementRange{use.index, 0, use.value().numel()}};
}

std::vector<OwnBlocks> own_blocks(const RankModel& rank) {
  std::vector<OwnBlocks> blocks;
  for (const SharedParameter& parameter : rank.parameters) {
    const ParameterUse* use = parameter.local_use();
    if (!use) continue;
    OwnBlocks& own = blocks.emplace_back(whole_of(parameter, *use));
    if (rank.shards_state) cut_out_own(rank, own);
  }
  return blocks;
}

Work<void> share_blocks(const RankModel& rank, int stage) {
  if (!rank.shards_state) return Work<void>::done();
  OwnedBlocks blocks(rank.groups);
  bool is_nothing = true;
  for (const SharedParameter& parameter : rank.parameters) {
    const ParameterUse* use = parameter.local_use();
    if (!use || use->stage->index() != stage || is_sharded_use(rank, *use)) continue;
    for (int replica = 0; replica < rank.groups.num_replicas; ++replica) {
      const auto range = rank.owners.range(use->stage->index(), use->index, replica);
      if (!range) continue;
      blocks.add(use->of_expert, replica, {use->value(), *range});
      is_nothing = false;
    }
  }
  // All replicas compute the same value, so none enters the collective alone.
  return is_nothing ? Work<void>::done() : gather_blocks(rank.groups, blocks);
}

}  // namespace sluice
