#include "optim/gather_blocks.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "optim/packed_parts.h"

namespace sluice {
namespace {

using Blocks = std::vector<TensorBlock>;
using Gathering = Work<std::vector<at::Tensor>>;

// Divides an owner's blocks into rounds of at most kBucketBytes. A larger block is a round of its
// own.
std::vector<Blocks> into_rounds(const Blocks& blocks) {
  std::vector<Blocks> rounds;
  std::int64_t bytes = kBucketBytes;
  for (const TensorBlock& block : blocks) {
    const std::int64_t size =
        block.range.size() * static_cast<std::int64_t>(block.whole.element_size());
    if (bytes + size > kBucketBytes) {
      rounds.emplace_back();
      bytes = 0;
    }
    rounds.back().push_back(block);
    bytes += size;
  }
  return rounds;
}

}  // namespace

namespace {

// blocks: by holder, with equal ranges on all of them.
Work<void> gather_among(const Holders& holders, const std::vector<Blocks>& blocks) {
  const at::NoGradGuard no_grad;
  auto rounds = std::make_shared<std::vector<std::vector<Blocks>>>();  // [holder][round]
  std::size_t num_rounds = 0;
  for (const Blocks& of_owner : blocks) {
    rounds->push_back(into_rounds(of_owner));
    num_rounds = std::max(num_rounds, rounds->back().size());
  }
  auto gatherings = std::make_shared<std::vector<Gathering>>();
  const auto& own = (*rounds)[static_cast<std::size_t>(holders.index)];
  for (std::size_t round = 0; round < num_rounds; ++round) {
    std::vector<at::Tensor> parts;
    if (round < own.size()) {
      for (const TensorBlock& block : own[round])
        parts.push_back(block.own.defined() ? block.own : elements_of(block.whole, block.range));
    }
    const at::Tensor packed = parts.empty() ? at::Tensor() : pack_parts(parts, parts[0].device());
    gatherings->push_back(holders.group.all_gather(packed));
  }
  return Work<void>([own = static_cast<std::size_t>(holders.index), rounds, gatherings] {
    const at::NoGradGuard without_graph;
    for (std::size_t round = 0; round < gatherings->size(); ++round) {
      const std::vector<at::Tensor> gathered = (*gatherings)[round].wait();
      for (std::size_t owner = 0; owner < rounds->size(); ++owner) {
        if (owner == own || round >= (*rounds)[owner].size()) continue;
        const Blocks& of_owner = (*rounds)[owner][round];
        std::vector<PartMeta> metas;
        for (const TensorBlock& block : of_owner)
          metas.push_back({block.range.size(), block.whole.scalar_type()});
        const std::vector<at::Tensor> parts = unpack_parts(gathered[owner], metas);
        for (std::size_t i = 0; i < parts.size(); ++i)
          set_elements(of_owner[i].whole, of_owner[i].range, parts[i]);
      }
    }
  });
}

}  // namespace

Work<void> gather_blocks(const RunGroups& groups, const OwnedBlocks& blocks,
                         std::function<void()> before_writing) {
  auto works = std::make_shared<std::vector<Work<void>>>();
  works->push_back(gather_among(groups.holders(), blocks.shared));
  if (groups.num_experts_ranks > 1 && groups.expert_holders.count > 1) {
    std::vector<Blocks> experts;
    for (int holder = 0; holder < groups.expert_holders.count; ++holder)
      experts.push_back(blocks.experts[static_cast<std::size_t>(
          groups.replica_of_holder(/*is_expert=*/true, holder))]);
    works->push_back(gather_among(groups.expert_holders, experts));
  }
  return Work<void>([works, before_writing = std::move(before_writing)] {
    if (before_writing) before_writing();
    for (Work<void>& work : *works) work.wait();
  });
}

}  // namespace sluice
