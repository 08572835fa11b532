#include "command/process_run.h"

#include <filesystem>
#include <map>
#include <utility>

#include "base/log.h"
#include "checkpoint/checkpoint_files.h"
#include "checkpoint/retention.h"
#include "comm/process_job.h"
#include "command/evaluation.h"
#include "command/failed_run.h"
#include "command/inputs.h"
#include "command/output_folders.h"
#include "command/resume_differences.h"
#include "command/train_rank.h"
#include "config/batch_sizes.h"
#include "config/epochs.h"
#include "config/machine_memory.h"
#include "config/option_keys.h"
#include "engine/rank_errors.h"
#include "engine/rank_threads.h"
#include "engine/replicas.h"
#include "io/published_directory.h"
#include "io/step_name.h"
#include "kind/adapter_files.h"
#include "kind/model_kind.h"
#include "launch/record_signal.h"
#include "launch/reported_elsewhere.h"
#include "plan/data_parallel.h"
#include "train/step_checks.h"

namespace sluice {
namespace {

Plan fitting(Plan plan, const LocalRanks& ranks) {
  require_memory(plan, ranks.memory_bytes(), ranks.on_machine);
  return plan;
}

// Removes what a run leaves in the checkpoint folder if it is killed after its last step.
void tidy_checkpoints(const ProcessRun& run) {
  io::clean_steps(run.config.checkpoint.folder, checkpoint_kind());
  run.target(run.resume.done.steps).after_commit();
}

std::string validation_name(std::string_view option) {
  return option == "data.files" ? "validation.files" : "";
}

std::deque<Prompt> prompts_of(const RunConfig& config, const ModelSpec& spec) {
  std::deque<Prompt> prompts;
  const std::vector<std::string>& texts = config.validation.prompts;
  if (texts.empty() || !config.validation.interval.is_on()) return prompts;
  if (spec.layers.back().loss_by_blocks) {
    throw Error(
        ErrorKind::kUsage,
        {.what = "validation.prompts need all logits, but the loss is computed from blocks of them",
         .where = config.origins.at("validation.prompts"),
         .remedy = "set training.loss_chunks = \"off\", or leave the prompts out"});
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    try {
      prompts.emplace_back(config, spec, texts[i],
                           SampleOptions{.tokens = config.validation.prompt_tokens});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage) throw;
      throw error.at(formatted("validation.prompts[{}]", i));
    }
  }
  return prompts;
}

std::optional<TokenData> open_validation(const RunConfig& config, const ModelSpec& spec) {
  if (config.validation.split > 0) return open_data(config, validation_data_options(config, spec));
  if (config.validation.files.empty()) return std::nullopt;
  return open_data(config, validation_data_options(config, spec), validation_name);
}

std::optional<AdapterDirectory> open_adapter(const RunConfig& config) {
  if (config.model.adapter.empty()) return std::nullopt;
  return AdapterDirectory(config.model.adapter);
}

std::optional<Failure> first_failure(const std::vector<std::unique_ptr<Transport>>& endpoints) {
  for (const auto& endpoint : endpoints) {
    if (std::optional<Failure> failure = endpoint->failure()) return failure;
  }
  return std::nullopt;
}

}  // namespace

struct TrainingJob::Impl {
  ProcessJob processes;
  std::optional<ProcessRun> run;
  std::int64_t steps = 0;

  explicit Impl(const RunConfig& config, int num_ranks)
      : processes(prepared(config), job_options(config, num_ranks)) {}

  // Restores checkpoints that a killed run was replacing, before the processes connect and look for
  // checkpoints.
  static LaunchEnvironment prepared(const RunConfig& config) {
    LaunchEnvironment environment = read_launch_environment();
    if (environment.layout.process == 0) io::restore_moved_steps(config.checkpoint.folder);
    return environment;
  }
};

TrainingJob::TrainingJob(const RunConfig& config, StopSignal& stop,
                         std::optional<StepRange> traced) {
  require_adapter_base(config);
  const bool has_others = read_launch_environment().layout.num_processes > 1;
  const bool is_told = needs_measurement(config) || (has_others && depends_on_machine(config));
  std::optional<Plan> plan;
  if (is_told) {
    check_plan_without_measurement(config);  // before connecting and measuring, which take time
  } else {
    plan = plan_of_config(config);
  }
  const PipelineOptions& pipeline = config.parallelism.pipeline;
  const int num_ranks =
      plan ? plan->program.mesh.num_ranks() : static_cast<int>(detail::ranks_of_run(pipeline));
  impl_ = std::make_unique<Impl>(config, num_ranks);
  run_with_shared_errors(impl_->processes, [&] {
    if (!plan) {
      const MeasuredMachine measured = measure_and_broadcast(config, impl_->processes);
      plan = plan_of_config(config, &measured);
    }
    try {
      impl_->run.emplace(config, std::move(*plan), stop, ranks_of(impl_->processes, num_ranks),
                         traced);
    } catch (const Error& error) {
      throw detail::with_keys(error);
    }
  });
}
TrainingJob::~TrainingJob() = default;

void TrainingJob::train() {
  run_with_shared_errors(impl_->processes, [this] { impl_->steps = impl_->run->train(); });
  impl_->processes.finish();
}

std::string TrainingJob::trace() const {
  const ProcessRun& run = *impl_->run;
  return run.trace && run.ranks.has_rank_zero() ? run.trace->text() : "";
}

int TrainingJob::close() {
  const ProcessRun& run = *impl_->run;
  if (impl_->steps < run.config.training.steps) return kStoppedBySignal;
  if (run.log && run.log->metrics_error()) throw Error(*run.log->metrics_error());
  return 0;
}

int run_job(const std::function<int()>& call) {
  try {
    return call();
  } catch (...) {
    rethrow_with_place("planning, before any rank started",
                       "lower training.local_batch_size or raise training.microbatch_size");
  }
}

ProcessRun::ProcessRun(const RunConfig& run_config, Plan run_plan, StopSignal& stop_signal,
                       LocalRanks local_ranks, const std::optional<StepRange>& traced)
    : config(run_config),
      plan(fitting(std::move(run_plan), local_ranks)),
      adapter(adapter_of_config(config, plan.model)),
      stop(stop_signal),
      ranks(std::move(local_ranks)),
      data(open_data(config, training_data_options(config, plan.model))),
      validation(open_validation(config, plan.model)),
      prompts(prompts_of(config, plan.model)),
      weights(open_weights(config, plan.model)),
      adapter_tensors(open_adapter(config)),
      part_of_source(plan.model.source->part_of(source_directory(config))),
      ledger(ranks.num_ranks),
      post_mortem(ranks),
      flight(ranks, config.metrics.folder, ranks.name, plan.program),
      interrupted(ranks) {
  set_steps(config, data);
  require_model_is_kept(config);
  require_data_is_kept(config);
  if (adapter_tensors) require_base_layers(*adapter_tensors, *weights.directory);
  made_of = fingerprints_of(config, plan.model, weights);
  made_of.is_traced = traced.has_value();
  // Other processes look for checkpoints only after this process (see TrainingJob).
  if (ranks.has_rank_zero()) io::restore_moved_steps(config.checkpoint.folder);
  resume = find_resume_point(config, made_of);
  set_resumed_steps();
  if (ranks.has_rank_zero()) log.emplace(config, plan, data, resume);
  // The log prints the data's warnings later, so skip them here.
  const std::vector<std::string> of_data = data.warnings();
  const auto warn = [&](const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings) {
      if (std::find(of_data.begin(), of_data.end(), warning) == of_data.end())
        log_warning(detail::with_keys(warning));
    }
  };
  if (ranks.has_rank_zero() && validation) warn(validation->warnings());
  if (!is_finished(config, resume)) require_steps_left(traced);
  if (!log) return;
  if (!ranks.why_device.empty()) log_info("device: " + ranks.why_device);
  if (!prompts.empty()) warn(prompts.front().warnings());
  if (!weights.warning.empty()) log_warning(weights.warning);
  for (const std::string& warning : resume.warnings) log_warning(warning);
}

// After a resume with another batch size, the same epochs take another number of steps.
void ProcessRun::set_resumed_steps() {
  set_steps(config, data, resume.done);
  set_settings(config, plan.model, made_of);
  if (config.training.epochs == 0) return;
  const auto warn = [this](const std::string& warning) {
    if (!warning.empty()) resume.warnings.push_back(warning);
  };
  warn(warmup_warning(config));
  if (resume.checkpoint) warn(decay_difference(resume.checkpoint->manifest(), config));
}

void ProcessRun::require_steps_left(const std::optional<StepRange>& traced) {
  if (traced) trace.emplace(*traced, resume.done.steps, config.training.steps, ranks);
  require_free_steps(config, resume);
  data.require_counted_labels(config.training.steps, batch_sizes(config).global_batch, resume.done);
  if (validation) require_counted_labels(*validation, config, config.validation.steps);
  require_outputs(config, plan);
}

BatchRange ProcessRun::rows_of(int rank) const {
  const std::int64_t count = batch_sizes(config).local_batch;
  return {replica_of(plan.program.mesh, rank) * count, count};
}

void ProcessRun::read_ahead() {
  data::StepsToRead steps;
  steps.first = resume.done.steps + 1;
  steps.last = config.training.steps;
  steps.batch_size = batch_sizes(config).global_batch;
  steps.done = resume.done;
  steps.count = count_by_model(config, plan.model);
  for (const int rank : ranks.here) steps.rows[rank] = rows_of(rank);
  batches.emplace(data, std::move(steps));
}

SaveTarget ProcessRun::target(std::int64_t step) const {
  SaveTarget target;
  target.path = config.checkpoint.folder + "/" + io::step_name(step);
  target.commit = config.checkpoint.commit;
  target.head.run = resume.run;
  target.head.generation = resume.generation;
  target.head.step = step;
  target.head.sequence =
      data.position_of(step + 1, batch_sizes(config).global_batch, resume.done).sequence;
  target.head.seed = config.training.seed;
  target.head.fingerprints = made_of.of;
  target.head.settings = made_of.settings;
  target.config_text = plan.model.config_text;
  target.source_directory = source_directory(config);
  target.part_of_source = part_of_source;
  if (adapter) {
    const std::filesystem::path base = std::filesystem::absolute(config.model.path);
    target.adapter_config = adapter_config(*adapter, plan.model, base.lexically_normal().string());
  }
  const Retention retention{.run = resume.run,
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

std::int64_t ProcessRun::train() {
  if (is_finished(config, resume)) {
    if (log) {
      log->already_finished();
      tidy_checkpoints(*this);
    }
    return resume.done.steps;
  }
  if (log) {
    folders.take(config);
    if (const std::string text = earlier_run_warning(config, resume); !text.empty())
      log_warning(text);
    log->begin(auto_text({config, plan, data, resume, ranks}));
  }
  const RecordSignal on_request([this] { flight.write_on_request(); });
  const auto endpoints = ranks.connect();
  PerRank<std::int64_t> steps(ranks);
  bool has_reported = false;
  try {
    read_ahead();
    const HangWatch watch(flight.recorders(),
                          hang_watch_options(*this, *endpoints.front(), has_reported));
    run_ranks(
        endpoints, ranks.threads_per_rank(config.training.threads_per_rank), &ledger,
        [&](Transport& transport) { steps.at(transport.rank()) = train_rank(*this, transport); });
    batches.reset();
  } catch (const Error& error) {
    batches.reset();
    const std::optional<Failure> failure = first_failure(endpoints);
    const Error cause = with_predicted_memory(plan, detail::with_keys(ranks.cause(error)), failure);
    close_failed(*this, cause, failure, has_reported);
    if (ranks.has_others) throw ReportedElsewhere(cause);
    throw Error(cause);
  }
  stop.run_finished();
  return agreed(steps, "the number of steps done");
}

}  // namespace sluice
