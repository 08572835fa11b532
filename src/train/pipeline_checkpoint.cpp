#include "train/pipeline_checkpoint.h"

#include <optional>

#include "base/content_hash.h"
#include "base/file.h"
#include "base/json.h"
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

constexpr const char* kOptimizerSetting = "optimizer";  // its kind

ParameterNames names_of(const CallersParameters& parameters) {
  ParameterNames names;
  for (const OwnBlocks& own : parameters.all()) {
    names.emplace(own.value.unsafeGetTensorImpl(),
                  OptimizedElements{own.parameter->name, own.use->value().sizes().vec(),
                                    own.range ? own.range->begin : 0});
  }
  return names;
}

NamedTensors optimizer_state(const PipelineState& state, const RankState& saved,
                             const torch::optim::Optimizer& optimizer) {
  const NamedTensors own = torch_optimizer_state(optimizer, names_of(state.parameters));
  if (state.parameters.are_blocks()) return gather_callers_state(own, state.engine.rank());
  return optimizer_state_of(saved, own);
}

Error usage(const std::string& what, const std::string& remedy) {
  return Error(ErrorKind::kUsage, {.what = what, .where = "Pipeline::save", .remedy = remedy});
}

// As JSON: refuses what is no UTF-8.
std::string text_of(const std::map<std::string, std::string>& extra) {
  if (std::optional<std::string> text = Json(extra).dump_valid()) return std::move(*text);
  throw usage("a text of the extra state is no UTF-8", "save bytes as a tensor of kByte");
}

// Of what ranks have to say alike.
std::string fingerprint_of(const std::string& path, const SaveOptions& options) {
  std::string text = path + "\n" + text_of(options.extra) + "\n" +
                     (options.optimizer ? optimizer_name(*options.optimizer) : "") + "\n" +
                     (options.commit == Commit::kMarker ? "marker" : "rename");
  std::map<std::string, at::Tensor> seen;
  for (const auto& [name, tensor] : options.extra_tensors) {
    if (!tensor.defined() || !seen.emplace(name, tensor).second)
      throw usage(
          "the extra tensor '" + name + "' is " + (tensor.defined() ? "twice" : "not") + " there",
          "give every name once, with its tensor");
    text += "\n" + name + to_text(meta_of(tensor)) + tensor_hash(tensor);
  }
  return content_hash(text);
}

void require_alike(const Group& world, const std::string& own) {
  std::optional<std::string> first;
  for (WireReader& of_rank : gather_messages(world, WireWriter().add(own), "what the ranks save")) {
    const auto theirs = of_rank.take<std::string>();
    of_rank.finish();
    if (theirs != first.value_or(theirs))
      throw usage("ranks save to other paths, or other extra state",
                  "give save() the same path and options on every rank");
    first = theirs;
  }
}

void require_optimizer_of(const Checkpoint& checkpoint, const torch::optim::Optimizer& optimizer) {
  const auto& settings = checkpoint.manifest().settings;
  const auto saved = settings.find(kOptimizerSetting);
  const std::string own = optimizer_name(optimizer);
  if (saved != settings.end() && saved->second == own) return;
  throw Error(ErrorKind::kCheckpoint,
              {.what = saved == settings.end()
                           ? std::string("the checkpoint was saved without an optimizer")
                           : "the checkpoint has the state of " + saved->second + ", not of " + own,
               .where = checkpoint.path(),
               .remedy = "load it without an optimizer, whose state then begins anew"});
}

}  // namespace

SaveOutcome save_pipeline(const PipelineState& state, const std::string& path,
                          const SaveOptions& options) {
  require_alike(state.world, fingerprint_of(path, options));
  SaveTarget target;
  target.path = path;
  target.commit = options.commit;
  target.head.run = unique_suffix();
  target.head.step = state.step;
  target.head.seed = state.engine.options().seed;
  target.head.extra = options.extra;
  RankState saved = state.engine.state(state.engine.rank().groups);
  if (options.optimizer) {
    target.head.settings[kOptimizerSetting] = optimizer_name(*options.optimizer);
    saved.optimizer = optimizer_state(state, saved, *options.optimizer);
  }
  saved.extra = options.extra_tensors;
  return save_checkpoint(target, saved, state.world);
}

LoadedState load_pipeline(const PipelineState& state, const std::string& path,
                          torch::optim::Optimizer* optimizer) {
  const Checkpoint checkpoint(path);
  const Manifest& manifest = checkpoint.manifest();
  if (optimizer) require_optimizer_of(checkpoint, *optimizer);
  state.engine.load(checkpoint, {});
  if (optimizer) load_torch_optimizer(*optimizer, names_of(state.parameters), checkpoint);
  LoadedState loaded{manifest.step, manifest.extra, {}};
  for (const SavedTensor& tensor : manifest.extra_tensors)
    loaded.extra_tensors.emplace_back(tensor.name, checkpoint.read(SavedKind::kExtra, tensor.name));
  return loaded;
}

}  // namespace sluice
