// The resolved configuration of a run. Precedence: command line, environment (SLUICE_SECTION_KEY),
// file, default. No public header of the library uses RunConfig.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/transport_kind.h"
#include "kind/model_kind.h"
#include "plan/predict/layer_times.h"
#include "sluice/data.h"
#include "sluice/lora.h"
#include "sluice/model_spec.h"
#include "sluice/options.h"
#include "sluice/plan.h"

namespace sluice {

struct TimedRun;
struct Comparison;

enum class ParameterType { kFloat32, kBfloat16, kFloat16 };
enum class MixedPrecision { kNone, kBfloat16 };
enum class FusedOperators { kAuto, kOff };
enum class OnSaveError { kStop, kContinue };

struct ResumeFrom {
  enum Kind {
    kNewest,  // newest valid checkpoint in checkpoint.folder, if any
    kNone,
    kStep,
    kPath,
  };
  Kind kind = kNewest;
  std::int64_t step = 0;
  std::string path = {};

  friend bool operator==(const ResumeFrom&, const ResumeFrom&) = default;
};

// How often a run saves or validates: every `steps` steps, or whenever `epochs` more are over.
struct Interval {
  std::int64_t steps = 0;  // 0: never
  double epochs = 0;       // instead of steps; above 0
  // The rows of `epochs`, and of a step. set_steps() sets these fields.
  double rows = 0, rows_per_step = 0;
  StepsDone done = {};

  Interval(std::int64_t of_steps = 0) : steps(of_steps) {}
  bool is_on() const { return steps > 0 || epochs > 0; }
  bool is_due(std::int64_t step) const;
};

struct ModelOptions {
  std::string path;
  std::string adapter;
  std::string config;
  std::string graph;  // path of an exported graph, or "" for a Hugging Face family
  std::string loss_output, transformer_layer_cls;
  std::vector<std::string> graph_sizes;  // "NAME=NUMBER"
  ParameterType dtype = ParameterType::kFloat32;
};
struct TrainingOptions {
  std::int64_t steps = 100;  // with epochs: set_steps() sets it
  double epochs = 0;
  std::int64_t local_batch_size = 8;
  std::int64_t microbatch_size = 1;
  std::int64_t seq_len = 512;
  std::int64_t seed = 0;
  std::int64_t threads_per_rank = 1;
  DeviceKind device = DeviceKind::kAuto;
  std::vector<std::string> trainable = {"*"};
  std::int64_t global_batch_size = 0;
  std::int64_t layout_free = 0;  // layouts whose degrees divide this number compute equal bits
  MixedPrecision mixed_precision = MixedPrecision::kNone;
  ActivationCheckpoint activation_checkpoint = {};  // recomputation in backward; never kClasses
  FusedOperators fused = FusedOperators::kAuto;
  LossChunks loss_chunks = LossChunks::kAuto;
};
struct ParallelismOptions {
  // Configuration keys set most fields directly. plan_of_config() computes the others: schedule.own
  // (the schedule read from schedule_csv), the numbers of microbatches and sequences, and the
  // optimizer, which training and optimizer options determine.
  PipelineOptions pipeline = {.num_ranks = 4};
  std::string schedule_csv;
  GradientScale scale_grads;
  TransportKind transport = TransportKind::kAuto;
  Balance partition = Balance::kEven;
  std::string costs;
  std::string device_memory;
};
struct ValidationOptions {
  std::vector<std::string> files;
  double split = 0;  // share or number of the training rows
  Interval interval;
  std::int64_t steps = 0;
  std::vector<std::string> prompts;
  std::int64_t prompt_tokens = 64;
};
struct CommOptions {
  double init_timeout_seconds = 300.0;
  double train_timeout_seconds = 100.0;
  double heartbeat_seconds = 5.0;
};
struct CheckpointOptions {
  std::string folder = "outputs/checkpoint";
  Interval interval;
  std::int64_t keep_latest_k = 3;
  std::int64_t keep_every = 0;
  ResumeFrom resume;
  bool async = true;
  Commit commit = Commit::kRename;
  OnSaveError on_save_error = OnSaveError::kStop;
  std::vector<std::string> allow = {};
};
struct MetricsOptions {
  std::string folder = "outputs";
  std::int64_t log_freq = 1;
  LogLevel log_level = LogLevel::kInfo;
  bool parameter_norms = false;
  bool report = true;
  bool enable_tensorboard = false;
};

// Exported graphs and, by default, Hugging Face families.
KindTable native_kinds();

struct RunConfig {
  KindTable kinds = native_kinds();
  ModelOptions model;
  LoraOptions lora;
  DataOptions data;  // its `files` are patterns
  TrainingOptions training;
  OptimizerOptions optimizer;
  LearningRateOptions lr_scheduler;
  ParallelismOptions parallelism;
  ValidationOptions validation;
  CommOptions comm;
  CheckpointOptions checkpoint;
  MetricsOptions metrics;

  // Whether the model is planned and never made, so that it needs no modules.
  bool plans_only = false;
  // The machine's speed from `sluice plan --flops`, which does not measure.
  struct Speed {
    double flops = 0;
    double bandwidth = 0;  // bytes per second; 0: transfers are free
  };
  std::optional<Speed> speed;

  std::string file;
  // "section.key" -> "file.toml:12:1", "default", "--section.key", "SLUICE_...".
  std::map<std::string, std::string> origins;
};

// Returns the model, without adapter, with costs for the configured precision and microbatches.
// Throws like plan_of_config().
ModelSpec model_of_config(const RunConfig& config);

// Key and value. A value that is not TOML is a string. Relative paths start at the working folder.
using Overrides = std::vector<std::pair<std::string, std::string>>;

// Removes every `--section.key value` and `--section.key=value` before a "--" from `arguments`, and
// returns them. Throws Error(kUsage) for a missing value. Does not check keys.
Overrides take_overrides(std::vector<std::string>& arguments);

// Reads `file` ("" for none), `overrides` and `environment` (SLUICE_SECTION_KEY -> value). Throws
// Error(kUsage) with "file:line:column" for unknown keys, wrong types, values out of range and keys
// that contradict each other. Keys that are "not built yet" accept only their default. Several
// errors become an ErrorList (base/error_list.h). `kinds` must outlive the result.
RunConfig load_run_config(const std::string& file, const Overrides& overrides,
                          const std::map<std::string, std::string>& environment,
                          KindTable kinds = native_kinds());
std::map<std::string, std::string> sluice_environment();

// Machine properties for the plan. One process sends them to all, so that all make the same plan.
struct MeasuredMachine {
  std::string times;                  // layer_times_json(), or ""
  std::int64_t memory_per_rank = 0;   // bytes
  std::int64_t threads_per_rank = 1;  // 0: not known yet
};
// Whether the run must measure layer times first. Otherwise the plan uses counted costs.
bool needs_measurement(const RunConfig& config);
// Whether the plan depends on this machine's times, memory or cores. One process must then send its
// MeasuredMachine to all.
bool depends_on_machine(const RunConfig& config);
// `threads_per_rank` applies if the configuration does not set a number. Its default is an equal
// share of this machine's cores.
TimedRun timed_run_of(const RunConfig& config, const ModelSpec& model,
                      std::optional<std::int64_t> threads_per_rank = {});
std::optional<std::int64_t> device_memory_bytes(const RunConfig& config);

// Reads only the model's config.json. Messages name keys and where they were set. Without
// `measured`, assumes that all ranks run on this machine. Throws Error(kUsage) if no model fits the
// configuration, Error(kInput) for bad files, and the errors of plan_pipeline().
Plan plan_of_config(const RunConfig& config, const MeasuredMachine* measured = nullptr);

// Compares the predicted memory with and without training.layout_free. `plan` must come from
// plan_of_config() with the other arguments.
std::string layout_free_memory_cost(const RunConfig& config, const Plan& plan,
                                    const MeasuredMachine* measured = nullptr);

// Plans every schedule with every number of stages per rank. Lists impossible schedules with the
// reason instead of throwing.
Comparison compare_schedules(const RunConfig& config);

// Throws the errors of plan_of_config() that do not depend on measured times or memory.
void check_plan_without_measurement(const RunConfig& config);

// Returns none if no adapter is configured. `model` may include the adapter or not. Throws
// Error(kUsage) for keys that contradict each other or the model, and Error(kInput) like
// read_adapter(). Runs must also call require_adapter_base().
std::optional<Adapter> adapter_of_config(const RunConfig& config, const ModelSpec& model);
// Throws Error(kUsage) if the adapter's base model would get random weights.
void require_adapter_base(const RunConfig& config);

// Returns the files that match data.files, each once, in the order of patterns and then by name. A
// Megatron pair is listed by its .bin file. Throws Error(kInput) for a pattern without files or a
// file of the wrong format, and Error(kUsage) if data.files is empty.
std::vector<std::string> expand_data_files(const RunConfig& config);
// Returns one list of files per pattern. data.weights has one weight per pattern.
std::vector<std::vector<std::string>> expand_data_entries(const RunConfig& config);

std::vector<std::string> expand_validation_files(const RunConfig& config);

// Returns the folder of the model's tokenizer, or "".
std::string model_directory(const RunConfig& config);
// Throws Error(kInput) if text data needs the model's tokenizer and sluice does not support its
// format.
void require_tokenizer(const RunConfig& config);

// show_config_json() returns {"training.steps": {"value": 100, "origin": "default"}, ...}.
std::string show_config(const RunConfig& config);
std::string show_config_changes(const RunConfig& config);
std::string show_config_json(const RunConfig& config);
std::string config_reference();
std::string config_reference_json();
// Lists the configuration keys of other training libraries with the equivalent keys of sluice.
std::string peer_reference();
std::vector<std::string> config_keys();

}  // namespace sluice
