#include "train/pipeline_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "base/content_hash.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/load_state.h"
#include "checkpoint/rank_state.h"
#include "checkpoint/tensor_files.h"
#include "checkpoint/torch_optimizer.h"
#include "comm/gather_messages.h"
#include "sluice/checkpoint.h"
#include "sluice/error.h"
#include "sluice/parts/saver.h"
#include "train/sharded_state.h"

namespace sluice {
namespace {

ParameterNames names_of(const CallersParameters& parameters) {
  ParameterNames names;
  for (const OwnBlocks& own : parameters.all()) {
    const ParameterInfo& info = own.use->stage->parameters()[own.use->index];
    names.emplace(
        own.value.unsafeGetTensorImpl(),
        OptimizedElements{own.parameter->name, info.global_shape, own.range ? own.range->begin : 0,
                          info.is_whole() ? nullptr : &info});
  }
  return names;
}

NamedTensors optimizer_state(const PipelineState& state, const RankState& saved,
                             const std::vector<const torch::optim::Optimizer*>& optimizers) {
  const ParameterNames names = names_of(state.parameters);
  NamedTensors own;
  for (const torch::optim::Optimizer* optimizer : optimizers) {
    for (auto& tensor : torch_optimizer_state(*optimizer, names)) own.push_back(std::move(tensor));
  }
  if (state.parameters.are_blocks()) return gather_callers_state(own, state.rank.share());
  return optimizer_state_of(saved, own);
}

template <typename Optimizers>
std::string kinds_of(const Optimizers& optimizers) {
  std::vector<std::string> kinds;
  for (const auto* optimizer : optimizers) {
    const std::string kind = optimizer_name(*optimizer);
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  return join(kinds, ", ");
}

Error usage(const std::string& what, const std::string& remedy) {
  return Error(ErrorKind::kUsage, {.what = what, .where = "Pipeline::save", .remedy = remedy});
}

std::string text_of(const std::map<std::string, std::string>& extra) {
  if (std::optional<std::string> text = Json(extra).dump_valid()) return std::move(*text);
  throw usage("a text of the extra state is not UTF-8", "save bytes as a tensor of kByte");
}

// Prefix of a rank's own tensors in Manifest::extra_tensors ("ranks/3/NAME"), and the key of the
// number of ranks in Manifest::settings.
constexpr const char* kOfRanks = "ranks/";
constexpr const char* kRanksSetting = "ranks";

std::string prefix_of(int rank) { return kOfRanks + std::to_string(rank) + "/"; }

void require_names(const NamedTensors& tensors) {
  std::set<std::string> seen;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.defined() && !name.starts_with(kOfRanks) && seen.insert(name).second) continue;
    throw usage("the extra tensor '" + name + "' is " +
                    (!tensor.defined()            ? "undefined"
                     : name.starts_with(kOfRanks) ? "named like a rank's own tensor"
                                                  : "given twice"),
                "give every name once, with its tensor");
  }
}

std::string fingerprint_of(const std::string& path, const SaveOptions& options) {
  require_names(options.extra_tensors);
  require_names(options.rank_tensors);
  std::string text = path + "\n" + text_of(options.extra) + "\n" + kinds_of(options.optimizers) +
                     "\n" + (options.commit == Commit::kMarker ? "marker" : "rename");
  for (const auto& [name, tensor] : options.extra_tensors)
    text += "\n" + name + to_text(meta_of(tensor)) + tensor_hash(tensor);
  return content_hash(text);
}

// Collective. Returns whether any rank saves its own tensors.
bool agree_on_options(const Group& world, const std::string& path, const SaveOptions& options) {
  std::optional<std::string> first;
  bool has_rank_tensors = false;
  const Packer own = Packer().add(fingerprint_of(path, options)).add(!options.rank_tensors.empty());
  for (Unpacker& of_rank : gather_messages(world, own, "what the ranks save")) {
    const auto theirs = of_rank.take<std::string>();
    has_rank_tensors |= of_rank.take<bool>();
    of_rank.finish();
    if (theirs != first.value_or(theirs))
      throw usage("ranks save to different paths, or different kinds of optimizers or extra state",
                  "give save() the same path and options on every rank, and a rank's own tensors "
                  "as rank_tensors");
    first = theirs;
  }
  return has_rank_tensors;
}

void require_optimizers_of(const Checkpoint& checkpoint, const PipelineState& state,
                           const std::vector<torch::optim::Optimizer*>& optimizers) {
  if (optimizers.empty()) return;
  const auto& settings = checkpoint.manifest().settings;
  const auto saved = settings.find(kOptimizerSetting);
  const std::string own = kinds_of(optimizers);
  if (saved == settings.end() || saved->second != own) {
    throw Error(
        ErrorKind::kCheckpoint,
        {.what = saved == settings.end()
                     ? std::string("the checkpoint was saved without an optimizer")
                     : "the checkpoint has the state of " + saved->second + ", not of " + own,
         .where = checkpoint.path(),
         .remedy = "load it without an optimizer, whose state then starts afresh"});
  }
  for (const torch::optim::Optimizer* optimizer : optimizers)
    require_own_state(*optimizer, names_of(state.parameters), checkpoint);
}

std::string names_of_rank_tensors(const Manifest& manifest) {
  std::set<std::string> names;
  for (const SavedTensor& tensor : manifest.extra_tensors) {
    if (tensor.name.starts_with(kOfRanks))
      names.insert("'" + tensor.name.substr(tensor.name.find('/', std::strlen(kOfRanks)) + 1) +
                   "'");
  }
  return join({names.begin(), names.end()}, ", ");
}

void require_rank_tensors(const Checkpoint& checkpoint, int num_ranks) {
  const Manifest& manifest = checkpoint.manifest();
  const auto saved = manifest.settings.find(kRanksSetting);
  if (saved != manifest.settings.end() && saved->second == std::to_string(num_ranks)) return;
  throw Error(
      ErrorKind::kCheckpoint,
      {.what = saved == manifest.settings.end()
                   ? std::string("the checkpoint was saved without rank_tensors")
                   : "the rank_tensors " + names_of_rank_tensors(manifest) + " are of " +
                         saved->second + " ranks, but this run has " + std::to_string(num_ranks),
       .where = checkpoint.path(),
       .remedy = "load it without LoadOptions::rank_tensors"});
}

}  // namespace

SaveOutcome save_pipeline(const PipelineState& state, const std::string& path,
                          const SaveOptions& options) {
  const bool has_rank_tensors = agree_on_options(state.world, path, options);
  SaveTarget target;
  target.path = path;
  target.commit = options.commit;
  target.head.run = unique_suffix();
  target.head.step = state.step;
  target.head.seed = state.rank.options().seed;
  target.head.extra = options.extra;
  const RunGroups& groups = state.rank.share().groups;
  RankState saved;
  if (options.optimizers.empty()) {
    saved = state.rank.state(groups);
  } else {
    target.head.settings[kOptimizerSetting] = kinds_of(options.optimizers);
    saved = state.rank.state(groups, [&](const RankState& held) {
      return optimizer_state(state, held, options.optimizers);
    });
  }
  const int rank = state.world.rank();
  if (has_rank_tensors) target.head.settings[kRanksSetting] = std::to_string(state.world.size());
  if (rank == 0) saved.extra = options.extra_tensors;
  for (const auto& [name, tensor] : options.rank_tensors)
    saved.extra.emplace_back(prefix_of(rank) + name, tensor);
  return save_checkpoint(target, saved, state.world);
}

LoadedState load_pipeline(const PipelineState& state, const std::string& path,
                          const LoadOptions& options) {
  const Checkpoint checkpoint(path);
  const Manifest& manifest = checkpoint.manifest();
  require_optimizers_of(checkpoint, state, options.optimizers);
  if (options.rank_tensors) require_rank_tensors(checkpoint, state.world.size());
  state.rank.load(checkpoint, {});
  for (torch::optim::Optimizer* optimizer : options.optimizers)
    load_torch_optimizer(*optimizer, names_of(state.parameters), checkpoint);
  LoadedState loaded{manifest.step, manifest.extra, {}, {}};
  const std::string own = prefix_of(state.world.rank());
  const bool has_rank_tensors = manifest.settings.contains(kRanksSetting);
  for (const SavedTensor& tensor : manifest.extra_tensors) {
    const auto read = [&] { return checkpoint.read(SavedKind::kExtra, tensor.name); };
    if (!has_rank_tensors || !tensor.name.starts_with(kOfRanks))
      loaded.extra_tensors.emplace_back(tensor.name, read());
    else if (options.rank_tensors && tensor.name.starts_with(own))
      loaded.rank_tensors.emplace_back(tensor.name.substr(own.size()), read());
  }
  return loaded;
}

}  // namespace sluice
