#include "train/equalize_drawn_weights.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/format.h"
#include "comm/gather_messages.h"
#include "sluice/error.h"

namespace sluice {
namespace {

struct Use {
  std::string name, first_use;
  int layer = 0, stage = 0, rank = 0;
};

const std::string& first_use_of(const ParameterInfo& info) {
  return info.tied_to.empty() ? info.name : info.tied_to;
}

std::vector<Use> gather_uses(const std::vector<Stage*>& stages, const Group& world) {
  Packer own;
  std::size_t num_uses = 0;
  for (Stage* stage : stages) num_uses += stage->parameters().size();
  own.add(num_uses);
  for (Stage* stage : stages) {
    for (const ParameterInfo& info : stage->parameters())
      own.add(info.name).add(first_use_of(info)).add(info.layer).add(stage->index());
  }
  std::vector<Use> uses;
  int rank = 0;
  for (Unpacker& message : gather_messages(world, own, "where parameters are used")) {
    for (auto left = message.take<std::size_t>(); left > 0; --left) {
      Use& use = uses.emplace_back();
      use.name = message.take<std::string>();
      use.first_use = message.take<std::string>();
      use.layer = message.take<int>();
      use.stage = message.take<int>();
      use.rank = rank;
    }
    message.finish();
    ++rank;
  }
  return uses;
}

void require_one_stage_per_module(const std::vector<Use>& uses) {
  std::map<std::string, const Use*> first;
  for (const Use& use : uses) {
    const std::size_t dot = use.name.rfind('.');
    const std::string module = dot == std::string::npos ? "" : use.name.substr(0, dot);
    const Use& other = *first.emplace(module, &use).first->second;
    if (other.stage == use.stage) continue;
    throw Error(
        ErrorKind::kUsage,
        {.what = formatted("'{}' and '{}' belong to one module, but are on stages {} and {}",
                           other.name, use.name, other.stage, use.stage),
         .where = "Initialization::module",
         .remedy = "set Initialization::tensor, or put them on one stage"});
  }
}

void hand_out(const std::string& name, const std::vector<Use>& uses,
              const std::vector<Stage*>& stages, const Group& world) {
  const auto first = std::min_element(uses.begin(), uses.end(),
                                      [](const Use& a, const Use& b) { return a.layer < b.layer; });
  std::vector<at::Tensor> own;
  for (Stage* stage : stages) {
    for (const ParameterInfo& info : stage->parameters())
      if (first_use_of(info) == name) own.push_back(info.tensor.detach());
  }
  std::vector<at::Tensor> pieces(static_cast<std::size_t>(world.size()));
  if (world.rank() == first->rank) {
    for (const Use& use : uses) pieces[static_cast<std::size_t>(use.rank)] = own.front().clone();
  }
  const at::Tensor value =
      world.all_to_all(std::move(pieces)).wait()[static_cast<std::size_t>(first->rank)];
  for (at::Tensor& tensor : own) tensor.copy_(value);
}

template <typename Wanted>
void copy_first(const std::vector<Stage*>& stages, const Group& group, const Wanted& is_wanted) {
  std::vector<at::Tensor> tensors;
  for (Stage* stage : stages) {
    for (const ParameterInfo& info : stage->parameters())
      if (is_wanted(info)) tensors.push_back(info.tensor.detach());
    for (const auto& [name, buffer] : stage->chunk().buffers()) tensors.push_back(buffer.detach());
  }
  for (at::Tensor& tensor : tensors) {
    // Send a copy, because receivers may share the sender's storage.
    const at::Tensor given = group.rank() == 0 ? tensor.clone() : at::Tensor();
    const at::Tensor first = group.broadcast(given, 0).wait();
    if (group.rank() != 0) tensor.copy_(first);
  }
}

}  // namespace

void equalize_drawn_weights(const std::vector<Stage*>& stages, const RunGroups& groups,
                            bool by_module) {
  const at::NoGradGuard no_grad;
  const Group& world = groups.pipeline;
  const std::vector<Use> uses = gather_uses(stages, world);
  if (by_module) require_one_stage_per_module(uses);
  std::map<std::string, std::vector<Use>> ties;
  for (const Use& use : uses) ties[use.first_use].push_back(use);
  for (const auto& [name, of_tie] : ties) {
    const auto elsewhere = [&](const Use& use) { return use.rank != of_tie.front().rank; };
    if (std::any_of(of_tie.begin(), of_tie.end(), elsewhere)) hand_out(name, of_tie, stages, world);
  }
  if (groups.shares)
    copy_first(stages, groups.shares, [](const ParameterInfo& info) { return !info.split; });
  if (groups.replicas)
    copy_first(stages, groups.replicas, [](const ParameterInfo& info) { return !info.of_expert; });
  if (groups.num_experts_ranks > 1 && groups.expert_holders.group)
    copy_first(stages, groups.expert_holders.group,
               [](const ParameterInfo& info) { return info.of_expert; });
}

}  // namespace sluice
