#include "job/checkpoint_target.h"

#include "io/step_name.h"
#include "job/process_run.h"
#include "sluice/parts/metrics.h"

namespace sluice {

SaveTarget checkpoint_target(const ProcessRun& run, std::int64_t step) {
  const RunConfig& config = run.config;
  SaveTarget target;
  target.path = config.checkpoint.folder + "/" + io::step_name(step);
  target.commit = config.checkpoint.commit == "marker" ? Commit::kMarker : Commit::kRename;
  target.head.step = step;
  target.head.seed = config.training.seed;
  target.config_text = run.plan.model.config_text;
  target.source_directory = config.model.path;
  target.flush_before = {MetricsFile::path_in(config.metrics.folder)};
  return target;
}

}  // namespace sluice
