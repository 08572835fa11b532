#include "command/weights.h"

#include <algorithm>
#include <vector>

#include "base/format.h"
#include "base/printable.h"
#include "base/text.h"
#include "checkpoint/read_manifest.h"
#include "command/fingerprints.h"
#include "io/hf_shards.h"
#include "kind/adapter_files.h"
#include "kind/model_kind.h"
#include "sluice/error.h"
#include "sluice/lora.h"

namespace sluice {
namespace {

constexpr std::size_t kShownNames = 5;

std::string first_names(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(kShownNames, names.size()); ++i) {
    shown.push_back(printable(names[i]));
  }
  const std::size_t rest = names.size() - shown.size();
  return join(shown, ", ") + (rest > 0 ? formatted(" and {} more", rest) : "");
}

}  // namespace

OpenedWeights open_weights(const RunConfig& config, const ModelSpec& spec) {
  if (!config.model.path.empty()) return open_weights_in(config.model.path, spec);
  OpenedWeights weights;
  weights.in_archive = spec.source->has_weights();
  return weights;
}

OpenedWeights open_weights_in(const std::string& path, const ModelSpec& spec) {
  OpenedWeights weights;
  weights.directory.emplace(path);
  const std::vector<std::string> unused =
      check_checkpoint(*weights.directory, without_adapter(spec));
  // If the model is a part of a larger one, the other tensors are expected
  // (docs/hf-directories.md).
  if (!unused.empty() && !spec.source->is_part()) {
    weights.warning = formatted("{} of {} {} not used by the model: {}",
                                counted(static_cast<std::int64_t>(unused.size()), "tensor"), path,
                                unused.size() == 1 ? "is" : "are", first_names(unused));
  }
  return weights;
}

void require_base_of_run(const std::string& adapter, const ModelSpec& spec,
                         const OpenedWeights& base) {
  if (!was_committed(adapter)) return;
  const Manifest manifest = read_manifest(adapter);
  const auto was = manifest.fingerprints.find("model");
  if (was == manifest.fingerprints.end() || was->second == model_fingerprint(spec, base)) return;
  throw Error(ErrorKind::kCheckpoint,
              {.what = formatted("the adapter was trained on weights other than those of '{}'",
                                 base.directory->path()),
               .where = adapter,
               .remedy = "name the model that its run started from"});
}

void require_base_of_run(const std::string& adapter, const std::string& base) {
  const ModelSpec spec = read_model_spec(base);
  require_base_of_run(adapter, spec, open_weights_in(base, spec));
}

}  // namespace sluice
