#include "train/rank_model.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "base/format.h"
#include "comm/gather_messages.h"
#include "engine/parallelize.h"
#include "layer/deferred.h"
#include "layer/initialize_chunks.h"
#include "layer/unfilled.h"
#include "plan/slices.h"
#include "sluice/error.h"
#include "train/equalize_drawn_weights.h"

namespace sluice {
namespace {

RankStages make_stages(const Model& model, const Plan& plan, const RunGroups& groups,
                       at::Device device, const RunOptions& options) {
  const Mesh& mesh = plan.program.mesh;
  StageOptions of_stages;
  of_stages.backward_of = options.backward_of;
  of_stages.parallelize = options.parallelize;
  of_stages.axis_names = options.axis_names;
  of_stages.mesh = mesh;
  of_stages.tensor_parallel = plan.options.tensor_parallel;
  if (options.parallelize || groups.num_shares > 1 || groups.num_experts_ranks > 1)
    of_stages.groups = make_axis_groups(groups, mesh);
  of_stages.replica = groups.replica;
  of_stages.share = groups.share;
  const FactoryNumbersScope scope(options.weights == InitialWeights::kFactory);
  RankStages stages = build_stages(model, plan.partition, groups.place(), of_stages);
  if (!device.is_cpu()) stages.to(device);
  return stages;
}

bool is_one_pipeline(const RunGroups& groups) {
  return groups.num_replicas == 1 && groups.num_shares == 1;
}

void require_own_slices(const ParameterInfo& info, const TensorParallel& how, int share) {
  const bool is_of_slices = info.split || !info.summed.empty();
  if (!is_of_slices) return;
  const SliceRange own = detail::slices_of(share, how);
  const auto& [begin, end, count] = info.slices;
  const bool fits =
      info.split ? info.slices == own : count == own.count && own.begin <= begin && end <= own.end;
  if (fits) return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted(
                   "a module has slices {} to {} of {}, but this rank has slices {} to {} of {}",
                   begin, end, count, own.begin, own.end, own.count),
               .where = "'" + info.name + "', ParameterSlices",
               .remedy = "divide by PipelineOptions::tensor_parallel: a module must have that "
                         "number of slices, and hold those of the rank along tp"});
}

// Marks undivided parameters as equal on all tensor-parallel ranks.
void set_shares(const RankStages& stages, const TensorParallel& how, const RunGroups& groups) {
  for (Stage* stage : stages.pointers()) {
    for (ParameterInfo& info : stage->chunk().parameters()) {
      require_own_slices(info, how, groups.share);
      if (groups.num_shares > 1 && !info.split) info.replicated = {Axis::kTp};
    }
  }
}

std::int64_t process_token() {
  static const auto token = static_cast<std::int64_t>(std::random_device()());
  return token;
}

// Rejects modules that several replicas' threads share, because their gradients would mix.
void require_own_modules(const RankModel& rank) {
  if (is_one_pipeline(rank.groups)) return;
  std::vector<std::int64_t> own;
  std::vector<std::string> names;
  for (Stage* stage : rank.stages.pointers()) {
    for (const ParameterInfo& parameter : stage->parameters()) {
      own.push_back(static_cast<std::int64_t>(
          reinterpret_cast<std::uintptr_t>(parameter.tensor.unsafeGetTensorImpl())));
      names.push_back(parameter.name);
    }
  }
  const Packer message = Packer().add(process_token()).add(own);
  int other = 0;
  for (Unpacker& of_rank : gather_messages(rank.groups.world, message, "modules of replicas")) {
    const auto process = of_rank.take<std::int64_t>();
    const auto theirs = of_rank.take<std::vector<std::int64_t>>();
    of_rank.finish();
    if (other++ == rank.groups.world.rank() || process != process_token()) continue;
    const std::set<std::int64_t> held(theirs.begin(), theirs.end());
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!held.contains(own[i])) continue;
      throw Error(ErrorKind::kUsage,
                  {.what = formatted("'{}' is one tensor on ranks {} and {}, which are replicas",
                                     names[i], rank.groups.world.rank(), other - 1),
                   .where = "LayerSpec::make",
                   .remedy = "make a new module in every call, as a factory of from_module() does: "
                             "a ready module of from_sequential() is for one replica"});
    }
  }
}

void require_experts(const RankModel& rank) {
  bool has_experts = false;
  for (Stage* stage : rank.stages.pointers())
    for (const ParameterInfo& info : stage->parameters()) has_experts |= info.of_expert;
  if (rank.groups.num_experts_ranks == 1) {
    if (!has_experts) return;
    throw Error(
        ErrorKind::kUsage,
        {.what = "a parameter is declared as an expert's, but every replica has all experts",
         .where = "ParameterSlices::of_expert",
         .remedy = "set it only where `expert_parallel.degree` is above 1"});
  }
  for (Unpacker& of_rank :
       gather_messages(rank.groups.world, Packer().add(has_experts), "which ranks have experts")) {
    has_experts |= of_rank.take<bool>();
    of_rank.finish();
  }
  if (has_experts) return;
  throw Error(ErrorKind::kUsage, {.what = "the model has no experts that ranks can share",
                                  .where = "`expert_parallel.degree`",
                                  .remedy = "set the degree to 1"});
}

using Copies = std::vector<at::Tensor>;

template <typename IsKept>
Copies copies_of(Stage& stage, const IsKept& is_kept) {
  Copies copies;
  for (const ParameterInfo& parameter : stage.parameters())
    copies.push_back(is_kept(parameter) ? parameter.tensor.detach().clone() : at::Tensor());
  return copies;
}

void restore(Stage& stage, const Copies& copies) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < copies.size(); ++i)
    if (copies[i].defined()) at::Tensor(stage.parameters()[i].tensor).copy_(copies[i]);
}

}  // namespace

RankModel::RankModel(const Model& model, const Plan& plan, const Group& world, at::Device device,
                     const RunOptions& options)
    : mesh(plan.program.mesh),
      data_parallel(plan.options.data_parallel),
      groups(make_run_groups(world, mesh)),
      stages(make_stages(model, plan, groups, device, options)),
      parameters(with_other_experts(
          list_parameters(stages.pointers(), groups.pipeline, Mesh({.pp = groups.pipeline.size()})),
          groups)),
      owners(stages.pointers(), groups),
      shards_state(groups.num_replicas > 1 && (data_parallel.zero1 || data_parallel.zero3)) {
  set_shares(stages, plan.options.tensor_parallel, groups);
  require_experts(*this);
  require_own_modules(*this);
}

void RankModel::fill(const FillStage& fill) {
  for (const auto& stage : stages.stages()) {
    if (sharded) sharded->begin_filling(stage->index());
    fill(*stage);
    unfilled[stage->index()] = unfilled_parameters(stage->chunk());
    if (sharded) sharded->end_filling(stage->index());
  }
  has_weights = true;
}

void RankModel::initialize(const Model& model, const RunOptions& options) {
  const bool shards = groups.num_replicas > 1 && data_parallel.zero3;
  const std::vector<Stage*> own = stages.pointers();
  const auto shard = [&] {
    if (shards) sharded = std::make_unique<ShardedParameters>(own, owners, groups);
  };
  unfilled_remedy = model.initialization.remedy;
  if (options.weights == InitialWeights::kNone) return shard();
  const auto find_unfilled = [&] {
    for (Stage* stage : own) unfilled[stage->index()] = unfilled_parameters(stage->chunk());
  };
  has_weights = true;
  if (options.weights == InitialWeights::kDrawn) {
    std::vector<Copies> kept;
    for (Stage* stage : shards ? own : std::vector<Stage*>())
      kept.push_back(copies_of(*stage, [&](const ParameterInfo& parameter) {
        return !is_drawn_by_default(stage->chunk(), parameter);
      }));
    shard();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      sharded->begin_filling(own[i]->index());
      restore(*own[i], std::exchange(kept[i], {}));
    }
    stages.draw_weights(options.seed);
    equalize_drawn_weights(own, groups, static_cast<bool>(model.initialization.module));
    find_unfilled();
    for (const Stage* stage : own)
      if (sharded) sharded->end_filling(stage->index());
    return;
  }
  equalize_drawn_weights(own, groups, /*by_module=*/false);
  find_unfilled();
  if (!shards) return;
  std::vector<Copies> made;
  made.reserve(own.size());
  for (Stage* stage : own)
    made.push_back(copies_of(*stage, [](const ParameterInfo&) { return true; }));
  shard();
  std::size_t next = 0;
  fill([&](Stage& stage) { restore(stage, std::exchange(made[next++], {})); });
}

Stage& RankModel::stage(int index) const {
  const auto& all = stages.stages();
  return **std::find_if(all.begin(), all.end(),
                        [&](const auto& stage) { return stage->index() == index; });
}

bool RankModel::is_tied(int stage, std::size_t parameter) const {
  return std::any_of(parameters.begin(), parameters.end(), [&](const SharedParameter& shared) {
    return (shared.uses.size() > 1 || shared.has_partial_sums()) &&
           std::any_of(shared.uses.begin(), shared.uses.end(), [&](const ParameterUse& use) {
             return use.stage && use.stage->index() == stage && use.index == parameter;
           });
  });
}

std::vector<bool> layers_that_train(const RankModel& rank, const Model& model) {
  std::vector<bool> trains(model.layers.size());
  for (const SharedParameter& parameter : rank.parameters) {
    for (const ParameterUse& use : parameter.uses)
      trains[static_cast<std::size_t>(use.layer)] = true;
  }
  if (is_one_pipeline(rank.groups)) return trains;
  const std::vector<int> own(trains.begin(), trains.end());
  for (Unpacker& message : gather_messages(rank.groups.world, Packer().add(own), "what trains")) {
    const auto theirs = message.take<std::vector<int>>();
    message.finish();
    const auto differs = std::mismatch(own.begin(), own.end(), theirs.begin(), theirs.end());
    if (differs.first == own.end()) continue;
    const auto layer = static_cast<std::size_t>(differs.first - own.begin());
    throw Error(ErrorKind::kUsage, {.what = "layer '" + model.layers[layer].name +
                                            "' trains on one replica and is frozen on another",
                                    .where = "LayerSpec::make",
                                    .remedy = "set requires_grad alike on every rank"});
  }
  return trains;
}

}  // namespace sluice
