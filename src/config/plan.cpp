// From a RunConfig to a proven program: one step after the other.
#include "sluice/plan.h"

#include <set>
#include <utility>

#include "base/saturate.h"
#include "base/text.h"
#include "config/plan_schedule.h"
#include "plan/predict/activation_memory.h"

namespace sluice {
namespace {

ModelSpec read_model(const RunConfig& config) {
  const std::string& path = config.model.path.empty() ? config.model.config : config.model.path;
  if (path.empty()) {
    throw Error(ErrorKind::kUsage, {.what = "the configuration names no model",
                                    .where = config.file.empty() ? "model.path" : config.file,
                                    .remedy = "set model.path or model.config"});
  }
  return read_model_spec(path);
}

Rounding rounding_of(const std::string& word) {
  if (word.empty()) return Rounding::kNone;
  return word == "up" ? Rounding::kUp : Rounding::kDown;
}

// schedule: "": stages and placement are free of one.
PartitionOptions partition_options(const RunConfig& config, const std::string& schedule) {
  const ParallelismOptions& parallelism = config.parallelism;
  PartitionOptions options;
  options.convention = parallelism.partition_convention;
  options.num_ranks = static_cast<int>(parallelism.pipeline_parallel_degree);
  options.schedule = schedule;
  options.stages_per_rank = static_cast<int>(parallelism.pipeline_parallel_stages_per_rank);
  options.layers_per_stage = static_cast<int>(parallelism.pipeline_parallel_layers_per_stage);
  options.rounding = rounding_of(parallelism.round_virtual_stages_to_pp_multiple);
  options.first_stage_weight = parallelism.first_stage_weight;
  options.last_stage_weight = parallelism.last_stage_weight;
  options.split_points = parallelism.pipeline_parallel_split_points;
  options.cuts = parallelism.pipeline_parallel_cuts;
  options.modules = parallelism.module_fqns_per_model_part;
  options.stage_to_rank = parallelism.stage_to_rank;
  if (!parallelism.stage_to_rank_name.empty()) options.placement = parallelism.stage_to_rank_name;
  return options;
}

// The options of a split for stages that a file has settled.
PartitionOptions partition_options(const RunConfig& config, const Schedule& schedule) {
  PartitionOptions options = partition_options(config, "");
  options.stage_to_rank = schedule.stage_map.ranks();
  options.num_stages = schedule.num_stages();
  return options;
}

// Where what decides a split was given: "run.toml:8:1, --parallelism.stage_to_rank".
std::string places_of_split(const RunConfig& config) {
  static const std::set<std::string> others = {"scale_grads", "reduce_grad_per_microbatch",
                                               "data_parallel_degree", "zero1", "transport"};
  const std::string section = "parallelism.";
  std::vector<std::string> places;
  for (const auto& [key, origin] : config.origins) {
    if (!key.starts_with(section) || others.contains(key.substr(section.size()))) continue;
    if (origin != "default") places.push_back(origin);
  }
  return places.empty() ? config.file : join(places, ", ");
}

// The rules of a split know options, not keys and files.
std::string with_keys(const std::string& text) {
  return replace_all(
      replace_all(text, "layers_per_stage", "parallelism.pipeline_parallel_layers_per_stage"),
      "partition_convention", "parallelism.partition_convention");
}

Partition split(const RunConfig& config, const ModelSpec& model, const PartitionOptions& options) {
  try {
    Partition partition = make_partition(model, options);
    for (std::string& note : partition.notes) note = with_keys(note);
    return partition;
  } catch (const Error& error) {
    throw Error(error.kind(),
                {.what = with_keys(error.fact()),
                 .where = error.where().empty() ? places_of_split(config) : error.where(),
                 .remedy = with_keys(error.remedy())});
  }
}

// The name that is given; where none is, one that runs as many stages a rank as the split makes.
std::string schedule_name(const RunConfig& config, const ModelSpec& model,
                          std::vector<std::string>& notes) {
  const std::string key = "parallelism.pipeline_parallel_schedule";
  const std::string& name = config.parallelism.pipeline_parallel_schedule;
  if (detail::is_given(config, key)) return name;
  if (split(config, model, partition_options(config, "")).stages_per_rank() == 1) return name;
  const std::string several = "Interleaved1F1B";
  notes.push_back("several stages a rank and no schedule named: " + several + " is taken (" + key +
                  ")");
  return several;
}

void add_warnings(const RunConfig& config, Plan& plan) {
  const auto more = [&](const std::string& key, std::int64_t value, std::int64_t bound,
                        const std::string& what, const std::string& consequence) {
    if (value <= bound) return;
    const std::string where = config.origins.at(key);
    plan.warnings.push_back(key + " = " + std::to_string(value) + " is more than " + what +
                            std::to_string(bound) + consequence +
                            (where == "default" ? "" : "; " + where));
  };
  more("lr_scheduler.warmup_steps", config.lr_scheduler.warmup_steps, config.training.steps,
       "training.steps = ", ": the rate never reaches optimizer.lr");
  if (!plan.model.usual_positions) return;
  more("training.seq_len", config.training.seq_len, *plan.model.usual_positions,
       "the model's max_position_embeddings = ", ": it was not made for positions beyond them");
}

// Learned positions (gpt2) end; those of rotary embeddings do not.
void require_positions(const RunConfig& config, const ModelSpec& model) {
  if (!model.max_positions || config.training.seq_len <= *model.max_positions) return;
  const std::string positions = std::to_string(*model.max_positions);
  throw Error(ErrorKind::kUsage,
              {.what = "training.seq_len = " + std::to_string(config.training.seq_len) +
                       " is more than the model's " + positions + " positions",
               .where = config.origins.at("training.seq_len"),
               .remedy = "set training.seq_len to at most " + positions});
}

void require_proof(const Program& program, VerifyReport report, const std::string& subject) {
  try {
    require_verified(report, subject);
  } catch (const Error& error) {
    throw RefusedSchedule(error, program, std::move(report));
  }
}

std::vector<RankMemory> memory_of(const RunConfig& config, const Plan& plan) {
  constexpr std::int64_t kBytes = 4;  // float32
  const std::int64_t moments = config.optimizer.name == "AdamW" ? 2 : 0;
  std::vector<RankMemory> memory(static_cast<std::size_t>(plan.partition.num_ranks()));
  std::vector<std::set<std::string>> held(memory.size());
  for (const StageContent& stage : plan.partition.stages) {
    RankMemory& rank = memory[stage.rank];
    for (const int layer : stage.layers) {
      for (const ParameterSpec& parameter : plan.model.layers[layer].parameters) {
        rank.gradient_bytes += kBytes * parameter.numel();
        const std::string& name = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
        if (held[stage.rank].insert(name).second) rank.num_parameters += parameter.numel();
      }
    }
  }
  for (RankMemory& rank : memory) {
    rank.parameter_bytes = kBytes * rank.num_parameters;
    rank.optimizer_bytes = moments * rank.parameter_bytes;
  }

  const MicrobatchShape shape{config.training.microbatch_size, config.training.seq_len};
  std::vector<ActivationBytes> stages;
  for (const StageContent& stage : plan.partition.stages)
    stages.push_back(stage_activations(plan.model, stage, shape));
  for (std::size_t rank = 0; rank < memory.size(); ++rank) {
    const RowActivations row = row_activations(plan.program.ranks[rank], stages);
    memory[rank].activation_bytes = row.kept;
    memory[rank].running_bytes = row.peak - row.kept;
  }
  return memory;
}

}  // namespace

RefusedSchedule::RefusedSchedule(const Error& error, Program program, VerifyReport report)
    : Error(error),
      refused_(std::make_shared<const Refused>(Refused{std::move(program), std::move(report)})) {}

std::int64_t RankMemory::total_bytes() const {
  return saturating_add(held_bytes(), saturating_add(activation_bytes, running_bytes));
}

Plan make_plan(const RunConfig& config) {
  Plan plan;
  plan.model = read_model(config);
  require_positions(config, plan.model);
  add_warnings(config, plan);
  const ParallelismOptions& parallelism = config.parallelism;
  if (parallelism.pipeline_parallel_schedule_csv.empty()) {
    const std::string name = schedule_name(config, plan.model, plan.notes);
    plan.partition = split(config, plan.model, partition_options(config, name));
    plan.schedule = detail::named_schedule(config, name, plan.partition);
  } else {
    if (detail::is_given(config, "parallelism.pipeline_parallel_schedule")) {
      plan.notes.push_back(
          "parallelism.pipeline_parallel_schedule = \"" + parallelism.pipeline_parallel_schedule +
          "\" is not used: the schedule is that of " + parallelism.pipeline_parallel_schedule_csv);
    }
    plan.schedule = detail::schedule_of_file(config);
    // Before the split and the passes, which need a schedule that makes sense.
    const Program bare = to_program(plan.schedule);
    require_proof(bare, verify(bare), plan.schedule.name);
    detail::require_fits(config, plan.schedule);
    plan.partition = split(config, plan.model, partition_options(config, plan.schedule));
  }
  plan.notes.insert(plan.notes.end(), plan.partition.notes.begin(), plan.partition.notes.end());

  LowerOptions lowering;
  lowering.tie_groups = plan.partition.tie_groups;
  lowering.loss = true;
  lowering.optimizer_step = true;
  lowering.norm = true;
  plan.program = lower(plan.schedule, lowering);
  plan.report = verify(plan.program);
  require_proof(plan.program, plan.report, plan.schedule.name);
  plan.simulation = simulate(plan.program);
  plan.memory = memory_of(config, plan);
  return plan;
}

}  // namespace sluice
