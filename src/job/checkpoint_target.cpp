#include "job/checkpoint_target.h"

#include <filesystem>

#include "checkpoint/checkpoint_files.h"
#include "checkpoint/retention.h"
#include "config/batch_sizes.h"
#include "io/published_directory.h"
#include "io/step_name.h"
#include "job/process_run.h"
#include "job/run_inputs.h"
#include "plan/lora/adapter_files.h"
#include "sluice/parts/saver.h"

namespace sluice {

SaveTarget checkpoint_target(const ProcessRun& run, std::int64_t step) {
  const RunConfig& config = run.config;
  SaveTarget target;
  target.path = config.checkpoint.folder + "/" + io::step_name(step);
  target.commit = config.checkpoint.commit;
  target.head.run = run.resume.run;
  target.head.generation = run.resume.generation;
  target.head.step = step;
  target.head.sequence =
      position_of_step(step + 1, batch_sizes(config).global_batch, run.resume.done).sequence;
  target.head.seed = config.training.seed;
  target.head.fingerprints = run.made_of.of;
  target.head.settings = run.made_of.settings;
  target.config_text = run.plan.model.config_text;
  target.source_directory = source_directory(config);
  if (run.adapter) {
    const std::filesystem::path base = std::filesystem::absolute(config.model.path);
    target.adapter_config =
        adapter_config(*run.adapter, run.plan.model, base.lexically_normal().string());
  }
  const Retention retention{.run = run.resume.run,
                            .keep_latest_k = config.checkpoint.keep_latest_k,
                            .keep_every = config.checkpoint.keep_every};
  target.after_commit = [folder = config.checkpoint.folder, step, retention,
                         commit = target.commit] {
    remove_superseded(folder, step, retention, [commit](const std::string& path) {
      io::remove_published(path, commit, checkpoint_kind());
    });
  };
  return target;
}

}  // namespace sluice
