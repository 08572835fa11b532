#include "job/run_base.h"

#include "checkpoint/read_manifest.h"
#include "job/fingerprints.h"
#include "job/run_inputs.h"
#include "sluice/error.h"

namespace sluice {

void require_base_of_run(const std::string& adapter, const ModelSpec& spec,
                         const OpenedWeights& base) {
  if (!was_committed(adapter)) return;
  const Manifest manifest = read_manifest(adapter);
  const auto was = manifest.fingerprints.find("model");
  if (was == manifest.fingerprints.end() || was->second == model_fingerprint(spec, base)) return;
  throw Error(ErrorKind::kCheckpoint,
              {.what = "the adapter is of another base: it was trained on weights that are not "
                       "those of '" +
                       base.directory->path() + "'",
               .where = adapter,
               .remedy = "name the model that its run began from"});
}

void require_base_of_run(const std::string& adapter, const std::string& base) {
  const ModelSpec spec = read_model_spec(base);
  require_base_of_run(adapter, spec, open_weights_in(base, spec));
}

}  // namespace sluice
