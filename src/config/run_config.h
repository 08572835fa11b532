// The resolved configuration of a run: every key of the TOML file, with its value and origin.
// Functions here read, check and show it and make its plan.
//
// Precedence: command line, then SLUICE_SECTION_KEY in the environment, then file, then default. No
// public header of the library uses RunConfig.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/transport_kind.h"
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
    kNewest,  // newest valid one in checkpoint.folder; without one, start at step 0
    kNone,    // start at step 0
    kStep,    // a given step in checkpoint.folder
    kPath,
  };
  Kind kind = kNewest;
  std::int64_t step = 0;  // only for kStep
  std::string path = {};  // only for kPath

  friend bool operator==(const ResumeFrom&, const ResumeFrom&) = default;
};

struct ModelOptions {
  std::string path;
  std::string adapter;
  std::string config;
  std::string graph;                               // path of an exported graph; "": a native family
  std::string loss_output, transformer_layer_cls;  // only for graphs
  std::vector<std::string> graph_sizes;            // "NAME=NUMBER", only for graphs
  ParameterType dtype = ParameterType::kFloat32;
};
struct TrainingOptions {
  std::int64_t steps = 100;
  std::int64_t local_batch_size = 8;
  std::int64_t microbatch_size = 1;
  std::int64_t seq_len = 512;
  std::int64_t seed = 0;
  std::int64_t threads_per_rank = 1;
  DeviceKind device = DeviceKind::kAuto;
  std::vector<std::string> trainable = {"*"};
  std::int64_t global_batch_size = 0;
  std::int64_t layout_free = 0;  // layouts whose degrees divide it have equal bits; 0: off
  MixedPrecision mixed_precision = MixedPrecision::kNone;
  ActivationCheckpoint activation_checkpoint = {};  // never kClasses
  FusedOperators fused = FusedOperators::kAuto;
  LossChunks loss_chunks = LossChunks::kAuto;
};
struct ParallelismOptions {
  // own_schedule, the numbers of microbatches and sequences, and the optimizer are unset here.
  // plan_of_config() fills them in from schedule_csv and from other sections.
  PipelineOptions pipeline = {.num_ranks = 4};
  std::string schedule_csv;  // path, or ""
  GradientScale scale_grads;
  TransportKind transport = TransportKind::kAuto;
  Balance partition = Balance::kEven;
  std::string costs;
  std::string device_memory;
};
struct ValidationOptions {
  std::vector<std::string> files;  // patterns, like data.files
  std::int64_t interval = 0;
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
  std::int64_t interval = 0;
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

struct RunConfig {
  ModelOptions model;
  LoraOptions lora;
  DataOptions data;  // `files` holds patterns: see expand_data_files()
  TrainingOptions training;
  OptimizerOptions optimizer;
  LearningRateOptions lr_scheduler;
  ParallelismOptions parallelism;
  ValidationOptions validation;
  CommOptions comm;
  CheckpointOptions checkpoint;
  MetricsOptions metrics;

  // Assumed speed of a rank, for plans that do not measure. Only `sluice plan --flops` sets it.
  struct Speed {
    double flops = 0;      // per second, in matrix products
    double bandwidth = 0;  // bytes per second between ranks; 0: transfers are free
  };
  std::optional<Speed> speed;

  std::string file;  // path of the TOML file
  std::map<std::string, std::string>
      origins;  // "section.key" -> "file.toml:12:1", "default", "--section.key", "SLUICE_..."
};

// The model of a configuration without its adapter, with costs for its precision and microbatches.
// Throws like plan_of_config().
ModelSpec model_of_config(const RunConfig& config);

// Overrides from the command line, such as {"training.steps", "10"}. A value that is not TOML, such
// as a bare word, is a string. Relative paths start at the working folder.
using Overrides = std::vector<std::pair<std::string, std::string>>;

// Removes every `--section.key value` and `--section.key=value` from `arguments`, up to a "--".
// Throws Error(kUsage) for a missing value. load_run_config() checks whether the keys exist.
Overrides take_overrides(std::vector<std::string>& arguments);

// Reads `file` ("" for none), `overrides` and `environment` (SLUICE_SECTION_KEY -> value). Throws
// Error(kUsage) with "file:line:column" for unknown keys, wrong types and values out of range. The
// error for an unknown key suggests the nearest key or the equivalent of another library's key.
// Keys that are "not built yet" accept only their default. Several errors become one ErrorList
// (base/error_list.h). Throws Error(kUsage) for keys that contradict each other.
RunConfig load_run_config(const std::string& file, const Overrides& overrides,
                          const std::map<std::string, std::string>& environment);
// The environment variables of this process that start with SLUICE_.
std::map<std::string, std::string> sluice_environment();

// What one process measured. It is sent to all processes, so that all make the same plan.
struct MeasuredMachine {
  std::string times;                  // layer_times_json(); "" if not timed
  std::int64_t memory_per_rank = 0;   // bytes, unless parallelism.device_memory sets it
  std::int64_t threads_per_rank = 1;  // threads of the timing; 0: not known yet
};
// Whether the plan needs measured layer times that no file provides. They should be measured where
// the run starts. Without them the plan uses counted costs and adds a note.
bool needs_measurement(const RunConfig& config);
// Whether the plan depends on times or memory of the machine that the configuration does not give.
// One process must then measure them and send them to all others.
bool depends_on_machine(const RunConfig& config);
// Identifies the run whose layer times are needed. `threads_per_rank` applies if the configuration
// leaves the threads open. The default divides this machine's cores among all ranks.
TimedRun timed_run_of(const RunConfig& config, const ModelSpec& model,
                      std::optional<std::int64_t> threads_per_rank = {});
// parallelism.device_memory in bytes, or none if it is not set.
std::optional<std::int64_t> device_memory_bytes(const RunConfig& config);

// Plans the configured model with plan_pipeline(). Of the model's files it reads only config.json.
// Notes, warnings and errors name keys and the places where they were set. `measured` is what all
// processes received. Without it, this machine is used as if all ranks ran on it. Throws
// Error(kUsage) without a model or if the configuration does not fit it, Error(kInput) for bad
// files, and what plan_pipeline() throws.
Plan plan_of_config(const RunConfig& config, const MeasuredMachine* measured = nullptr);

// What training.layout_free fixes, and the predicted memory with and without it. Empty if
// layout_free is 0. `plan` must come from plan_of_config() with the same arguments.
std::string price_of_layout_free(const RunConfig& config, const Plan& plan,
                                 const MeasuredMachine* measured = nullptr);

// Plans every schedule with every number of stages per rank that it supports, under the memory
// limit of the ranks. Marks the configured schedule, unless it is "auto". Throws like
// plan_of_config(), but lists impossible schedules with their reasons.
Comparison compare_schedules(const RunConfig& config);

// Throws the errors of plan_of_config() that do not depend on measurements. A lack of memory is not
// reported, because it may depend on measured times.
void require_plannable(const RunConfig& config);

// The adapter that model.adapter or [lora] describes, or none if the run has no adapter. `model`
// may include the adapter or not. Throws Error(kUsage) for keys that contradict each other or the
// model, and Error(kInput) like read_adapter(). A run also needs require_adapter_base(), since only
// a plan works without the base weights.
std::optional<Adapter> adapter_of_config(const RunConfig& config, const ModelSpec& model);
// Throws Error(kUsage) for an adapter whose base model would get random weights.
void require_adapter_base(const RunConfig& config);

// The files that match data.files, each once. Patterns keep their order, and the files of a pattern
// are sorted. A Megatron pair is listed by its .bin file. Throws Error(kInput) for a pattern
// without files or a file of the wrong format, and Error(kUsage) if data.files is empty.
std::vector<std::string> expand_data_files(const RunConfig& config);
// Like expand_data_files(), with one list per pattern. data.weights has one weight per list.
std::vector<std::vector<std::string>> expand_data_entries(const RunConfig& config);

// Like expand_data_files(), for validation.files.
std::vector<std::string> expand_validation_files(const RunConfig& config);

// The folder of the model's tokenizer: model.path or the folder of model.config. Empty for none.
std::string model_directory(const RunConfig& config);
// Throws Error(kInput) if data.files has text, data.tokenizer is "auto", and the model's tokenizer
// has an unsupported form. Skips the check if the files do not exist yet.
void require_tokenizer(const RunConfig& config);

// Text with one aligned line per key: its value and origin. show_config_changes() lists only values
// that are not the default and returns "" if there are none. show_config_json() returns
// {"training.steps": {"value": 100, "origin": "default"}, ...}.
std::string show_config(const RunConfig& config);
std::string show_config_changes(const RunConfig& config);
std::string show_config_json(const RunConfig& config);
// The key reference in Markdown or JSON: key, type, default, range and meaning.
std::string config_reference();
std::string config_reference_json();
// The keys of other libraries and their equivalents in sluice, in Markdown.
std::string peer_reference();
// "section.key" of every key, in the order of the key reference.
std::vector<std::string> config_keys();

}  // namespace sluice
