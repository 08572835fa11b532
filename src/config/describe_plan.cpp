// What is said about a plan: to people, and as JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "sluice/plan.h"

namespace sluice {
namespace {

constexpr std::int64_t kBytes = 4;  // float32

// "model.embed_tokens, layers 0 to 2"
std::string contents(const ModelSpec& model, const StageContent& stage) {
  std::vector<std::string> parts;
  const auto [first_block, end_of_blocks] = model.block_range();
  bool blocks = false;
  for (const int i : stage.layers) {
    if (i < first_block || i >= end_of_blocks) {
      parts.push_back(model.layers[i].name);
    } else if (!blocks) {
      blocks = true;
      const int last = stage.first_layer + stage.num_layers - 1;
      parts.push_back(stage.num_layers == 1 ? "layer " + std::to_string(last)
                                            : "layers " + std::to_string(stage.first_layer) +
                                                  " to " + std::to_string(last));
    }
  }
  return join(parts, ", ");
}

std::string split_text(const RunConfig& config, const Plan& plan) {
  const Partition& partition = plan.partition;
  TextTable table({{"stage", Align::kRight},
                   {"rank", Align::kRight},
                   {"parameters", Align::kRight},
                   {"bytes", Align::kRight},
                   {"holds"}});
  for (const StageContent& stage : partition.stages) {
    table.add_row({std::to_string(stage.stage), std::to_string(stage.rank),
                   with_commas(stage.num_parameters), human_bytes(kBytes * stage.num_parameters),
                   contents(plan.model, stage)});
  }
  std::string text = "split: " + plan.model.family + ", " +
                     with_commas(plan.model.num_parameters()) + " parameters, " +
                     counted(partition.num_stages(), "stage") + " on " +
                     counted(partition.num_ranks(), "rank") + ", convention " +
                     config.parallelism.partition_convention + "\n" + table.to_string("  ");
  for (const TieGroup& group : partition.tie_groups) {
    std::vector<std::string> stages;
    for (const int stage : group.stages) stages.push_back(std::to_string(stage));
    text += "  tied: " + group.name + (stages.size() == 1 ? " on stage " : " on stages ") +
            join(stages, ", ") + "\n";
  }
  return text;
}

std::string schedule_text(const RunConfig& config, const Plan& plan, const GridOptions& options) {
  const TrainingOptions& training = config.training;
  std::size_t num_instructions = 0;
  for (const auto& rank : plan.program.ranks) num_instructions += rank.size();
  return "schedule: " + plan.schedule.name + ", " +
         counted(plan.program.num_microbatches, "microbatch") + " of " +
         std::to_string(training.microbatch_size) + " x " + std::to_string(training.seq_len) +
         " tokens\n" + draw_grid(plan.simulation, options) +
         "proof: " + with_commas(static_cast<std::int64_t>(num_instructions)) +
         " instructions complete; channels hold at most " +
         counted(plan.report.max_in_flight, "message") + ", " +
         std::to_string(plan.report.required_capacity) + " would do\n";
}

std::string prediction_text(const Plan& plan) {
  const Simulation& simulation = plan.simulation;
  TextTable table({{"rank", Align::kRight},
                   {"busy", Align::kRight},
                   {"live", Align::kRight},
                   {"parameters", Align::kRight},
                   {"gradients", Align::kRight},
                   {"optimizer", Align::kRight},
                   {"activations", Align::kRight},
                   {"running", Align::kRight},
                   {"peak", Align::kRight}});
  for (std::size_t rank = 0; rank < plan.memory.size(); ++rank) {
    const RankMemory& memory = plan.memory[rank];
    table.add_row({std::to_string(rank), shortest(simulation.busy_per_rank[rank]),
                   std::to_string(simulation.peak_live_per_rank[rank]),
                   human_bytes(memory.parameter_bytes), human_bytes(memory.gradient_bytes),
                   human_bytes(memory.optimizer_bytes), human_bytes(memory.activation_bytes),
                   human_bytes(memory.running_bytes), human_bytes(memory.total_bytes())});
  }
  return "prediction: " + shortest(simulation.makespan) + " units of time, bubble " +
         fixed(100.0 * simulation.bubble_fraction, 1) +
         "% (F, I, W take 1, B takes 2, transfers nothing)\n" + table.to_string("  ");
}

nlohmann::ordered_json split_json(const Plan& plan) {
  const Partition& partition = plan.partition;
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const StageContent& stage : partition.stages) {
    stages.push_back({{"stage", stage.stage},
                      {"rank", stage.rank},
                      {"first_layer", stage.first_layer},
                      {"num_layers", stage.num_layers},
                      {"modules", stage.modules},
                      {"parameters", stage.num_parameters},
                      {"bytes", kBytes * stage.num_parameters}});
  }
  return {{"num_stages", partition.num_stages()},
          {"stages_per_rank", partition.stages_per_rank()},
          {"stage_to_rank", partition.stage_map.ranks()},
          {"split_points", partition.split_points},
          {"stages", std::move(stages)}};
}

}  // namespace

std::string describe_plan(const RunConfig& config, const Plan& plan, const GridOptions& options) {
  return split_text(config, plan) + schedule_text(config, plan, options) + prediction_text(plan);
}

std::string plan_json(const RunConfig& config, const Plan& plan) {
  const Simulation& simulation = plan.simulation;
  nlohmann::ordered_json memory = nlohmann::ordered_json::array();
  for (std::size_t rank = 0; rank < plan.memory.size(); ++rank) {
    const RankMemory& of = plan.memory[rank];
    memory.push_back({{"rank", rank},
                      {"parameters", of.num_parameters},
                      {"parameter_bytes", of.parameter_bytes},
                      {"gradient_bytes", of.gradient_bytes},
                      {"optimizer_bytes", of.optimizer_bytes},
                      {"activation_bytes", of.activation_bytes},
                      {"running_bytes", of.running_bytes},
                      {"total_bytes", of.total_bytes()}});
  }
  nlohmann::ordered_json ties = nlohmann::ordered_json::array();
  for (const TieGroup& group : plan.partition.tie_groups) {
    ties.push_back({{"name", group.name}, {"stages", group.stages}});
  }
  nlohmann::ordered_json object;
  object["model"] = {{"family", plan.model.family},
                     {"num_layers", plan.model.num_blocks()},
                     {"parameters", plan.model.num_parameters()}};
  object["split"] = split_json(plan);
  object["tied"] = std::move(ties);
  object["schedule"] = {{"name", plan.schedule.name},
                        {"num_ranks", plan.program.num_ranks()},
                        {"num_microbatches", plan.program.num_microbatches},
                        {"microbatch_size", config.training.microbatch_size},
                        {"seq_len", config.training.seq_len}};
  object["check"] = {{"ok", plan.report.ok()},
                     {"required_capacity", plan.report.required_capacity},
                     {"max_in_flight", plan.report.max_in_flight}};
  object["simulate"] = {
      {"makespan", simulation.makespan},
      {"bubble_fraction", simulation.bubble_fraction},
      {"busy_per_rank", simulation.busy_per_rank},
      {"finish_per_rank", simulation.finish_per_rank},
      {"peak_live_per_rank", simulation.peak_live_per_rank},
      {"peak_live_until_grad_input_per_rank", simulation.peak_live_until_grad_input_per_rank}};
  object["memory"] = std::move(memory);
  return object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace sluice
