// sluice train CONFIG.toml [overrides]: from a configuration to a Hugging Face directory.
//
//   plan    the exact instruction list of every rank, proven before anything is allocated
//   check   data, weights, folders: a run that is refused leaves nothing behind
//   train   one thread a rank, all making the same calls in the same order
//   save    every rank its own parameters, published as one directory; what was learned before an
//           error too
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

#include "base/text.h"
#include "checkpoint/save_weights.h"
#include "command_line.h"
#include "commands.h"
#include "config/machine_memory.h"
#include "job/earlier_run.h"
#include "job/last_weights.h"
#include "job/post_mortem.h"
#include "job/run_inputs.h"
#include "job/run_log.h"
#include "job/single_process.h"
#include "job/stop_signal.h"
#include "job/trainer_options.h"
#include "run/out_of_memory.h"
#include "sluice/hf_directory.h"
#include "sluice/model.h"
#include "sluice/parts/group.h"
#include "sluice/parts/log.h"
#include "sluice/parts/memory_ledger.h"
#include "sluice/parts/rank_threads.h"
#include "sluice/plan.h"
#include "sluice/token_data.h"
#include "sluice/trainer.h"

namespace sluice {
namespace {

constexpr int kStoppedBySignal = 75;
// Threads cannot vanish, and a rank that fails wakes the others; what a rank waits for is at worst
// a slow disk or a large stage.
constexpr std::chrono::hours kLongestWait{1};

struct Stopwatch {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

// Of the files of weights that the ranks write.
std::uint64_t largest_shard(const Plan& plan) {
  std::int64_t bytes = 1;
  for (const RankPrediction& rank : plan.ranks)
    bytes = std::max(bytes, rank.memory.parameter_bytes);
  return std::min(static_cast<std::uint64_t>(bytes), kMaxShardBytes);
}

// Says on stdout how far a first step is that takes long.
struct Progress final : ExecutorObserver {
  explicit Progress(RunLog& of) : log(of) {}
  void end(int index, const Action& /*action*/) override { log.instruction_done(index); }
  RunLog& log;
};

// Everything that the ranks share; checked before anything is created.
struct Run {
  StopSignal stop;
  const RunConfig& config;
  Plan plan;
  TokenData data;
  std::optional<HfDirectory> weights;  // none: they are drawn
  RunLog log;
  Progress progress{log};
  MemoryLedger ledger;
  PostMortem post_mortem;
  std::vector<std::unique_ptr<Transport>> transports;  // one a rank
  std::vector<std::unique_ptr<Trainer>> interrupted;   // one a rank, of those whose steps failed

  explicit Run(const RunConfig& run_config)
      : config(run_config),
        plan(plan_of_config(config)),
        data(token_data_options(config, plan.model)),
        weights(open_weights(config, plan.model)),
        log(config, plan, data),
        ledger(plan.program.num_ranks()),
        transports(make_local_transports(plan.program.num_ranks(), {kLongestWait})),
        interrupted(transports.size()) {
    require_model_is_kept(config);
    require_data_is_kept(config);
    require_memory(plan, machine_memory_bytes());
    data.require_counted_labels(config.training.steps, config.training.local_batch_size);
    check_writable(config.checkpoint.folder, ErrorKind::kCheckpoint,
                   hf_directory_bytes(plan.model, config.model.path), largest_shard(plan));
    MetricsFile::check(config.metrics.folder);
  }
};

// Below, in this order. doing: kept up to date, for the message of memory that runs out between
// instructions. The number of steps done.
std::int64_t run_rank(Run& run, Transport& transport, std::string& doing);
std::int64_t run_steps(Run& run, Trainer& trainer, const Group& world, std::string& doing);
void close_failed(Run& run, const Error& error);
std::string place_of(const Plan& plan, int rank);

int train(const RunConfig& config) {
  set_log_level(config.metrics.log_level);
  Run run(config);
  if (const std::string text = earlier_run_warning(config); !text.empty()) log_warning(text);
  run.log.begin();
  std::int64_t steps = 0;
  try {
    run_ranks(run.transports, static_cast<int>(config.training.threads_per_rank), &run.ledger,
              [&](Transport& transport) {
                std::string doing;
                try {
                  const std::int64_t done = run_rank(run, transport, doing);
                  if (transport.rank() == 0) steps = done;
                } catch (...) {
                  rethrow_with_place(place_of(run.plan, transport.rank()) + ", " + doing,
                                     kOutOfMemoryRemedy);
                }
              });
  } catch (const Error& error) {
    close_failed(run, error);
    throw;
  }
  run.stop.run_finished();
  if (steps < config.training.steps) return kStoppedBySignal;
  if (run.log.metrics_error()) throw Error(*run.log.metrics_error());
  return 0;
}

// What the thread of each rank does.
std::int64_t run_rank(Run& run, Transport& transport, std::string& doing) {
  const bool logs = transport.rank() == 0;
  const TrainableModel model = {make_layers(run.plan.model), model_batch_inputs(),
                                model_final_outputs(), causal_lm_loss};
  TrainerOptions options = trainer_options(run.config);
  options.stop_requested = [&] { return run.stop.requested(); };
  options.ledger = &run.ledger;
  if (logs) options.observers.push_back(&run.progress);

  doing = "making the modules";  // of this rank's stages and of no others
  auto trainer =
      std::make_unique<Trainer>(model, run.plan.partition, run.plan.program, transport, options);
  doing = run.weights ? "loading the weights" : "drawing the weights";
  if (run.weights) {
    trainer->load_weights(*run.weights, run.plan.model);
  } else {
    trainer->draw_weights();
  }

  std::int64_t steps = 0;
  try {
    steps = run_steps(run, *trainer, transport.world(), doing);
  } catch (...) {
    run.post_mortem.add(transport.rank(), trainer->current_instruction(), trainer->flight_record());
    run.interrupted[static_cast<std::size_t>(transport.rank())] = std::move(trainer);
    throw;
  }
  doing = "saving the weights";
  const std::string saved =
      save_weights(run.config.checkpoint.folder, steps, trainer->parameters(),
                   run.plan.model.config_text, run.config.model.path, transport.world());
  const bool finished = steps == run.config.training.steps;
  if (logs) run.log.end(finished ? Ending::kFinished : Ending::kStopped, steps, saved);
  return steps;
}

// Every rank makes the same batches itself, and decides alike when to log and when to stop.
std::int64_t run_steps(Run& run, Trainer& trainer, const Group& world, std::string& doing) {
  const bool logs = world.rank() == 0;
  const TrainingOptions& training = run.config.training;
  for (std::int64_t step = 1;; ++step) {
    const Stopwatch watch;
    doing = "step " + std::to_string(step);
    // Whatever fails from here on finds the step before finished and logged by every rank.
    world.barrier().wait();
    const StepBatch batch =
        run.data.step_batch(step, training.local_batch_size, training.microbatch_size);
    const double lr =
        learning_rate(step, training.steps, run.config.optimizer.lr, run.config.lr_scheduler);
    const StepReport& report = trainer.step(batch, lr);
    run.stop.step_finished();

    if (step == 1) {
      const std::vector<int> unsplit = trainer.gather_unsplit_stages();
      if (logs) run.log.unsplit_stages(unsplit);
    }
    const bool last = report.stop || step == training.steps;
    if (last || is_logged(step, training.steps, run.config.metrics.log_freq)) {
      const std::vector<RankStats> stats = trainer.gather_stats();
      if (logs) run.log.step(step, lr, watch.seconds(), report, stats);
    } else if (logs) {
      run.log.skip_step(watch.seconds());
    }
    if (last) return step;
  }
}

// What is worth keeping of a run that failed, and what its user needs to see besides the error.
void close_failed(Run& run, const Error& error) {
  // Without all ranks there are not all weights.
  if (error.kind() != ErrorKind::kPeer) {
    const auto last = save_last_weights(run.config, run.plan, run.interrupted, {kLongestWait});
    if (last) run.log.end(Ending::kFailed, last->step, last->path);
  }
  run.stop.run_finished();
  // Of data and of numbers the error says it all.
  if (error.kind() == ErrorKind::kInput || error.kind() == ErrorKind::kNotFinite) return;
  if (const std::optional<Failure> failure = run.transports.front()->failure()) {
    std::cerr << run.post_mortem.text(run.plan.program, *failure,
                                      {use_color(STDERR_FILENO), terminal_width(STDERR_FILENO)});
  }
}

// "rank 1 (stages 1, 2)"
std::string place_of(const Plan& plan, int rank) {
  std::vector<std::string> stages;
  for (const StageContent& stage : plan.partition.stages) {
    if (stage.rank == rank) stages.push_back(std::to_string(stage.stage));
  }
  return "rank " + std::to_string(rank) + (stages.size() == 1 ? " (stage " : " (stages ") +
         join(stages, ", ") + ")";
}

}  // namespace

void add_train_command(CLI::App& app, const Overrides& overrides, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "train", "Trains; prints the settings that are not the default and the plan, then steps.");
  const auto file = std::make_shared<std::string>(), level = std::make_shared<std::string>();
  add_config_file(*command, *file, "configuration (TOML)")->required();
  command->add_option("--log-level", *level, "as --metrics.log_level");
  for (const char* option : {"--profile", "--profile-steps"}) {
    add_not_built(*command, option, "trace of what ran", "leave it out");
  }
  command->callback([file, level, overrides, &exit_code] {
    require_single_process();
    try {
      Overrides all = overrides;
      if (!level->empty()) all.emplace_back("metrics.log_level", *level);
      exit_code = train(load_run_config(*file, all, sluice_environment()));
    } catch (...) {
      rethrow_with_place("planning, before any rank started",
                         "use fewer microbatches a step: lower training.local_batch_size or raise "
                         "training.microbatch_size");
    }
  });
}

}  // namespace sluice
