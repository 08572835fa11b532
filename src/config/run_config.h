// The resolved configuration of a run: every key of the TOML file with its default.
//
// Owns: RunConfig (the options of the library, and those of the command alone, whose names are the
// keys of the file), the origin of each value, reading, checking, showing, and its plan. Does not
// own: acting on the values. No header of the library knows a RunConfig. Precedence: command line,
// then SLUICE_SECTION_KEY in the environment, then file, then default. Thread-safety: values.
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
struct Comparison;  // report/candidates_output.h

enum class ParameterType { kFloat32, kBfloat16, kFloat16 };
enum class MixedPrecision { kNone, kBfloat16 };
enum class FusedOperators { kAuto, kOff };
enum class OnSaveError { kStop, kContinue };

// The checkpoint that a run resumes from.
struct ResumeFrom {
  enum Kind {
    kNewest,  // newest of checkpoint.folder that verifies; without one the run starts
    kNone,    // the run starts afresh
    kStep,    // a step of checkpoint.folder
    kPath,
  };
  Kind kind = kNewest;
  std::int64_t step = 0;  // used by kStep alone
  std::string path = {};  // used by kPath alone

  friend bool operator==(const ResumeFrom&, const ResumeFrom&) = default;
};

struct ModelOptions {
  std::string path;
  std::string adapter;
  std::string config;
  std::string graph;                               // an exported graph; "": a family
  std::string loss_output, transformer_layer_cls;  // keys of a graph
  std::vector<std::string> graph_sizes;            // "NAME=NUMBER", of a graph
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
  std::int64_t layout_free = 0;  // layouts whose degrees divide it have the same bits; 0: off
  MixedPrecision mixed_precision = MixedPrecision::kNone;
  ActivationCheckpoint activation_checkpoint = {};  // not kClasses
  FusedOperators fused = FusedOperators::kAuto;
  LossChunks loss_chunks = LossChunks::kAuto;
};
struct ParallelismOptions {
  // Its own_schedule, microbatches, sequences and optimizer are not here, but in schedule_csv and
  // in other sections: plan_of_config() brings them together.
  PipelineOptions pipeline = {.num_ranks = 4};
  std::string schedule_csv;  // a path; "": none
  GradientScale scale_grads;
  TransportKind transport = TransportKind::kAuto;
  Balance partition = Balance::kEven;
  std::string costs;
  std::string device_memory;
};
struct ValidationOptions {
  std::vector<std::string> files;  // patterns, as data.files
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
  DataOptions data;  // files: patterns, see expand_data_files
  TrainingOptions training;
  OptimizerOptions optimizer;
  LearningRateOptions lr_scheduler;
  ParallelismOptions parallelism;
  ValidationOptions validation;
  CommOptions comm;
  CheckpointOptions checkpoint;
  MetricsOptions metrics;

  // The speed of a rank, where its times are not to be measured: no key, only `sluice plan
  // --flops`.
  struct Speed {
    double flops = 0;      // operations a second that products of matrices attain
    double bandwidth = 0;  // bytes a second between ranks; 0: messages take no time
  };
  std::optional<Speed> speed;

  std::string file;  // the TOML file
  std::map<std::string, std::string>
      origins;  // "section.key" -> "file.toml:12:1", "default", "--section.key", "SLUICE_..."
};

// The model of a configuration, with the costs of its precision and microbatches; without an
// adapter. Throws as plan_of_config().
ModelSpec model_of_config(const RunConfig& config);

// One override of the command line: {"training.steps", "10"}. The value is read as TOML; what is
// not TOML (a bare word) is a string. Relative paths in it are from the working folder.
using Overrides = std::vector<std::pair<std::string, std::string>>;

// Takes every `--section.key value` and `--section.key=value` out of `arguments` (up to a "--").
// Throws Error(kUsage) for a missing value; whether the key exists is checked by load_run_config.
Overrides take_overrides(std::vector<std::string>& arguments);

// Reads and checks `file` (may be "" for defaults only) with `overrides` and `environment`
// (SLUICE_SECTION_KEY -> value). Throws Error(kUsage) "file:line:column" for unknown keys (with the
// nearest, or what another library's key is here), wrong types, values out of range, and documented
// keys that are set away from their default but "not built yet": an ErrorList (base/error_list.h)
// if there are several. Throws Error(kUsage) for contradictions.
RunConfig load_run_config(const std::string& file, const Overrides& overrides,
                          const std::map<std::string, std::string>& environment);
// The variables of this process that start with SLUICE_.
std::map<std::string, std::string> sluice_environment();

// The machine of one process, as it reports it to all processes, so that all make the same plan.
struct MeasuredMachine {
  std::string times;                  // layer_times_json(); "": nothing was timed
  std::int64_t memory_per_rank = 0;   // bytes, if parallelism.device_memory does not decide it
  std::int64_t threads_per_rank = 1;  // threads that were timed, or would be; 0: not known yet
};
// True if the plan of the configuration needs measured times that no file has: they are to be
// measured where the run starts. Without that, its plan uses counted costs, and a note says so.
bool needs_measurement(const RunConfig& config);
// True if the plan depends on times or memory of the machine that the configuration does not give:
// one of several processes has to report them to all.
bool depends_on_machine(const RunConfig& config);
// The run whose times are needed. threads_per_rank: those of a run whose configuration leaves them
// open; without it, this machine's share for each of all ranks.
TimedRun timed_run_of(const RunConfig& config, const ModelSpec& model,
                      std::optional<std::int64_t> threads_per_rank = {});
// parallelism.device_memory in bytes; none: "".
std::optional<std::int64_t> device_memory_bytes(const RunConfig& config);

// plan_pipeline() of the model that the configuration names, of which only config.json is read. Its
// notes, warnings and errors speak of keys and of the places where they were given. measured: the
// report that all processes got; without it, this machine is used, as if all ranks were on it.
// Throws Error(kUsage) for a configuration without a model or that does not fit it, Error(kInput)
// for the files that it names, and what plan_pipeline() throws.
Plan plan_of_config(const RunConfig& config, const MeasuredMachine* measured = nullptr);

// What training.layout_free fixes, and the predicted memory with and without it; "" without it.
// plan: plan_of_config() of the same arguments.
std::string price_of_layout_free(const RunConfig& config, const Plan& plan,
                                 const MeasuredMachine* measured = nullptr);

// Every schedule, with every number of stages a rank that it can have, beside the one that the
// configuration names (none with "auto"), under the memory limit of ranks. Throws as
// plan_of_config(), but not for a schedule that is impossible.
Comparison compare_schedules(const RunConfig& config);

// Throws what plan_of_config() would throw whatever is measured: errors of the configuration or the
// model, but not a lack of memory, which may depend on measured times.
void require_plannable(const RunConfig& config);

// The adapter that model.adapter or [lora] asks for, of the model (with or without it); none: all
// of the model trains, as far as training.trainable says. Throws Error(kUsage) for keys that
// contradict each other or the model, Error(kInput) as read_adapter().
// A plan needs no weights of its base, and a run does: require_adapter_base().
std::optional<Adapter> adapter_of_config(const RunConfig& config, const ModelSpec& model);
// Throws Error(kUsage) for an adapter whose base would be drawn.
void require_adapter_base(const RunConfig& config);

// The files that the patterns of data.files match, each once: patterns in their order, the files of
// a pattern sorted; of Megatron's pairs the .bin. Throws Error(kInput) naming a pattern without
// files or a file that cannot be read as its format, Error(kUsage) when data.files is empty.
std::vector<std::string> expand_data_files(const RunConfig& config);
// The same pattern by pattern, as data.weights counts them.
std::vector<std::vector<std::string>> expand_data_entries(const RunConfig& config);

// The same of validation.files.
std::vector<std::string> expand_validation_files(const RunConfig& config);

// The folder with the model's tokenizer: model.path, or the folder of model.config; "" for none.
std::string model_directory(const RunConfig& config);
// Throws Error(kInput) if data.files has text, data.tokenizer is "auto", and the model's tokenizer
// is of a form that is not read. Files that are not there yet are passed over.
void require_tokenizer(const RunConfig& config);

// Every key with its value and origin, aligned, one a line; only the keys whose value is not the
// default ("" for none); and every key as JSON:
// {"training.steps": {"value": 100, "origin": "default"}, ...}.
std::string show_config(const RunConfig& config);
std::string show_config_changes(const RunConfig& config);
std::string show_config_json(const RunConfig& config);
// The key reference (Markdown, JSON): key, type, default, range, meaning. From the table of
// parsing.
std::string config_reference();
std::string config_reference_json();
// What does the work of other libraries' keys here (Markdown).
std::string peer_reference();
// "section.key" of every key, in the order of the reference.
std::vector<std::string> config_keys();

}  // namespace sluice
