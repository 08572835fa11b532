#include "report/plan_output.h"

#include <algorithm>
#include <ostream>

#include "base/format.h"
#include "base/text.h"
#include "plan/data_parallel.h"
#include "plan/option_words.h"
#include "plan/slices.h"
#include "report/candidates_output.h"
#include "report/partition_output.h"
#include "report/program_output.h"

namespace sluice {
namespace {

// Rows of images have no length.
bool has_length(const ModelSpec& model) {
  return model.inputs.empty() || std::ranges::any_of(model.inputs, [](const ValueSpec& input) {
           return std::ranges::find(input.sizes, kMicrobatchLength) != input.sizes.end();
         });
}

}  // namespace

std::string microbatch_text(const ModelSpec& model, const MicrobatchShape& shape) {
  return has_length(model) ? formatted("{} x {} tokens", shape.rows, shape.length)
                           : counted(shape.rows, "row");
}

namespace {

std::vector<StageShape> shapes_of(const Plan& plan) {
  if (plan.model.inputs.empty()) return {};  // without inputs, sizes are unknown
  return stage_shapes(plan.model, plan.partition, plan.microbatch.rows, plan.microbatch.length);
}

std::string split_text(const Plan& plan, int width) {
  const Partition& partition = plan.partition;
  return wrapped("split: " + plan.model.family + ", " + with_commas(plan.model.num_parameters()) +
                     " parameters, " + counted(partition.num_stages(), "stage") + " on " +
                     counted(partition.num_ranks(), "rank") + ", convention " +
                     partition.convention +
                     (plan.options.balance == Balance::kEven
                          ? std::string()
                          : ", as even as layers allow by their " +
                                std::string(plan.options.balance == Balance::kCost ? "counted"
                                                                                   : "measured") +
                                " costs"),
                 width) +
         partition_text(plan.model, partition, {}, width, "  ");
}

std::string schedule_text(const Plan& plan, const GridOptions& options) {
  std::size_t num_instructions = 0;
  for (const auto& rank : plan.program.ranks) num_instructions += rank.size();
  std::string schedule = formatted("schedule: {}, {} of {}", plan.schedule.name,
                                   counted(plan.program.num_microbatches, "microbatch"),
                                   microbatch_text(plan.model, plan.microbatch));
  const std::vector<StageShape> shapes = shapes_of(plan);
  if (shapes.size() > 1) {
    schedule += ", " + shape_text(shapes.front().output) + " between stages";
  }
  return wrapped(schedule, options.width) + draw_grid(plan.simulation, options) +
         wrapped(formatted("proof: {} instructions complete; channels hold at most {}, {} would do",
                           with_commas(static_cast<std::int64_t>(num_instructions)),
                           counted(plan.report.max_in_flight, "message"),
                           plan.report.required_capacity),
                 options.width);
}

std::string replicas_text(const Plan& plan, int width) {
  const DataParallel& replicas = plan.options.data_parallel;
  const bool exact = detail::sums_in_shards(replicas);
  if (replicas.degree == 1 && replicas.num_shards() == 1) return {};
  std::string text = "data parallel: " + counted(replicas.degree, "replica") +
                     " of this pipeline, " + counted(plan.program.mesh.num_ranks(), "rank") +
                     " in total";
  if (replicas.degree > 1 && plan.program.num_ranks() > 1) {
    text += " (rank_order " + plan.options.rank_order + ")";
  }
  if (exact) text += ", gradients add up in " + counted(replicas.num_shards(), "shard");
  if (!exact && replicas.reduction == Reduction::kFast) {
    text += ", gradients add up as the transport does";
  }
  if (replicas.degree > 1 && replicas.per_microbatch) text += ", after every microbatch";
  if (replicas.degree > 1 && replicas.zero3) {
    text += ", parameters and optimizer sharded (ZeRO-3)";
  } else if (replicas.degree > 1 && replicas.zero1) {
    text += ", optimizer sharded (ZeRO-1)";
  }
  if (const int degree = plan.options.expert_parallel.degree; degree > 1)
    text += formatted(", experts shared by {} replicas each, which adds up in other bits", degree);
  return wrapped(text, width);
}

std::string time_text(const Plan& plan, double time) { return time_text(basis_of(plan), time); }

std::string step_text(const Plan& plan) {
  return plan.time_unit.empty() ? shortest(plan.simulation.makespan) + " units of time"
                                : time_text(plan, plan.simulation.makespan) + " a step";
}

std::string auto_text(const Plan& plan, int width) {
  if (plan.candidates.empty()) return {};
  const ScheduleCandidate* next = nullptr;
  for (const ScheduleCandidate& each : plan.candidates) {
    if (each.refusal.empty() && !each.taken && (!next || each.step < next->step)) next = &each;
  }
  std::string why = "auto: " + plan.schedule.name + " with " +
                    counted(plan.partition.stages_per_rank(), "stage") + " a rank is the fastest";
  if (plan.options.memory_per_rank)
    why += " within " + human_bytes(*plan.options.memory_per_rank) + " a rank";
  why += ": " + step_text(plan) + " expected";
  if (next) {
    why += ", " + comparison_text(plan.simulation.makespan, next->step) + " " + next->name + " (" +
           counted(next->stages_per_rank, "stage") + " a rank)";
  }
  return wrapped(why, width) + candidates_text(plan.candidates, basis_of(plan), width);
}

Json auto_json(const Plan& plan) {
  Json object;
  object["schedule"] = plan.schedule.name;
  object["stages_per_rank"] = plan.partition.stages_per_rank();
  object["step"] = plan.simulation.makespan;
  object["unit"] = plan.time_unit;
  object["memory_per_rank"] = plan.options.memory_per_rank;
  object["candidates"] = candidates_json(plan.candidates);
  return object;
}

std::string prediction_text(const Plan& plan, int width) {
  const Simulation& simulation = plan.simulation;
  const bool alike = std::adjacent_find(plan.ranks.begin(), plan.ranks.end(),
                                        [](const RankPrediction& a, const RankPrediction& b) {
                                          return a.busy != b.busy;
                                        }) == plan.ranks.end();
  const bool snapshots = std::any_of(plan.ranks.begin(), plan.ranks.end(), [](const auto& rank) {
    return rank.memory.snapshot_bytes > 0;
  });
  const bool replicated = plan.options.data_parallel.degree > 1;
  const bool gathers = replicated && plan.options.data_parallel.zero3;
  std::vector<TextTable::Column> columns = {{"rank", Align::kRight}};
  if (!alike) columns.push_back({"busy", Align::kRight});
  for (const char* title : {"live", "weights", "gradients", "optimizer"})
    columns.push_back({title, Align::kRight});
  if (snapshots) columns.push_back({"snapshot", Align::kRight});
  if (gathers) columns.push_back({"gathered", Align::kRight});
  if (replicated) columns.push_back({"reduction", Align::kRight});
  for (const char* title : {"activations", "running", "peak"})
    columns.push_back({title, Align::kRight});
  TextTable table(std::move(columns));
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RankPrediction& of = plan.ranks[rank];
    const RankMemory& memory = of.memory;
    std::vector<std::string> row = {std::to_string(rank)};
    if (!alike) row.push_back(time_text(plan, of.busy));
    row.push_back(std::to_string(of.peak_live));
    for (const std::int64_t bytes :
         {memory.parameter_bytes, memory.gradient_bytes, memory.optimizer_bytes})
      row.push_back(human_bytes(bytes));
    if (snapshots) row.push_back(human_bytes(memory.snapshot_bytes));
    if (gathers) row.push_back(human_bytes(memory.gathered_bytes));
    if (replicated) row.push_back(human_bytes(memory.reduction_bytes));
    for (const std::int64_t bytes :
         {memory.activation_bytes, memory.running_bytes, memory.total_bytes()})
      row.push_back(human_bytes(bytes));
    table.add_row(std::move(row));
  }
  return wrapped("prediction: " + step_text(plan) +
                     (alike ? ", every rank busy for " + time_text(plan, plan.ranks.front().busy)
                            : std::string()) +
                     ", bubble " + fixed(100.0 * simulation.bubble_fraction, 1) + "%" +
                     basis_text(basis_of(plan)),
                 width) +
         table.to_string("  ", width);
}

bool divides_rows(const Plan& plan) {
  return detail::at_length(plan.microbatch.length, plan.options.tensor_parallel).sequence;
}

std::string shares_text(const Plan& plan, int width) {
  const TensorParallel& shares = plan.options.tensor_parallel;
  if (shares.num_slices() == 1) return {};
  return wrapped(
      formatted("tensor parallel: {} at each place of a pipeline, {} in total (rank_order {}), "
                "layers divided into {}{}",
                counted(shares.degree, "rank"), counted(plan.program.mesh.num_ranks(), "rank"),
                plan.options.rank_order, counted(shares.num_slices(), "slice"),
                divides_rows(plan) ? ", rows between them divided as well" : ""),
      width);
}

Json shares_json(const Plan& plan) {
  const TensorParallel& shares = plan.options.tensor_parallel;
  return {{"degree", shares.degree},
          {"slices", shares.num_slices()},
          {"sequence_parallel", divides_rows(plan)}};
}

Json replicas_json(const Plan& plan) {
  const DataParallel& replicas = plan.options.data_parallel;
  return {{"degree", replicas.degree},
          {"num_ranks", plan.program.mesh.num_ranks()},
          {"rank_order", plan.options.rank_order},
          {"shards", replicas.num_shards()},
          {"reduction", replicas.reduction == Reduction::kExact ? "exact" : "fast"},
          {"per_microbatch", replicas.per_microbatch},
          {"zero1", replicas.zero1 || replicas.zero3},
          {"zero3", replicas.zero3}};
}

std::string notes_text(const Plan& plan, int width) {
  std::string text;
  for (const std::string& note : plan.notes) text += wrapped("note: " + note, width);
  return text;
}

}  // namespace

std::string describe_plan(const Plan& plan, const GridOptions& options) {
  return split_text(plan, options.width) + schedule_text(plan, options) +
         replicas_text(plan, options.width) + shares_text(plan, options.width) +
         auto_text(plan, options.width) + prediction_text(plan, options.width) +
         notes_text(plan, options.width);
}

std::ostream& operator<<(std::ostream& out, const Plan& plan) {
  return out << describe_plan(plan, {});
}

std::string plan_json(const Plan& plan) { return plan_object(plan).dump(2) + "\n"; }

Json plan_object(const Plan& plan) {
  Json memory = Json::array();
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RankMemory& of = plan.ranks[rank].memory;
    memory.push_back({{"rank", rank},
                      {"parameters", of.num_parameters},
                      {"parameter_bytes", of.parameter_bytes},
                      {"gradient_bytes", of.gradient_bytes},
                      {"optimizer_bytes", of.optimizer_bytes},
                      {"snapshot_bytes", of.snapshot_bytes},
                      {"activation_bytes", of.activation_bytes},
                      {"running_bytes", of.running_bytes},
                      {"reduction_bytes", of.reduction_bytes},
                      {"gathered_bytes", of.gathered_bytes},
                      {"total_bytes", of.total_bytes()}});
  }
  Json ties = Json::array();
  for (const TieGroup& group : plan.partition.tie_groups) {
    ties.push_back({{"name", group.name}, {"stages", group.stages}});
  }
  Json object;
  object["model"] = {{"family", plan.model.family},
                     {"num_layers", plan.model.num_blocks()},
                     {"parameters", plan.model.num_parameters()}};
  object["split"] = partition_json(plan.model, plan.partition, shapes_of(plan));
  object["tied"] = std::move(ties);
  object["schedule"] = {
      {"name", plan.schedule.name},
      {"num_ranks", plan.program.num_ranks()},
      {"num_microbatches", plan.program.num_microbatches},
      {"microbatch_size", plan.microbatch.rows},
      {"seq_len", has_length(plan.model) ? Json(plan.microbatch.length) : Json()}};
  object["data_parallel"] = replicas_json(plan);
  if (const int degree = plan.options.expert_parallel.degree; degree > 1)
    object["expert_parallel"] = Json{{"degree", degree}};
  if (plan.options.tensor_parallel.num_slices() > 1) object["tensor_parallel"] = shares_json(plan);
  object["check"] = verify_json(plan.report);
  object["simulate"] = simulation_json(plan.simulation);
  object["prediction"] = {
      {"step", plan.simulation.makespan},
      {"unit", plan.time_unit},
      {"partition", detail::word_of(detail::words_of(plan.options.balance), plan.options.balance)}};
  if (!plan.candidates.empty()) object["auto"] = auto_json(plan);
  object["memory"] = std::move(memory);
  object["notes"] = plan.notes;
  object["warnings"] = plan.warnings;
  return object;
}

}  // namespace sluice
