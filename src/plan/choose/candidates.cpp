#include "plan/choose/candidates.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "plan/choose/placed_schedule.h"
#include "plan/choose/plan_one.h"
#include "plan/passes/passes.h"

namespace sluice::detail {
namespace {

constexpr int kUsualStages =
    4;  // per rank; more only if the model's blocks divide evenly among them
constexpr int kMostStages = 8;

PartitionOptions partition_options(const PipelineOptions& options, int num_ranks,
                                   const std::optional<ScheduleName>& schedule) {
  if (options.partition.num_ranks != 0 && options.partition.num_ranks != num_ranks) {
    throw Error(ErrorKind::kUsage,
                {.what = "the partition is for " + counted(options.partition.num_ranks, "rank") +
                         ", but the pipeline has " + counted(num_ranks, "rank"),
                 .where = "`partition`",
                 .remedy = "leave `partition.num_ranks` out"});
  }
  PartitionOptions partition = options.partition;
  partition.num_ranks = num_ranks;
  partition.schedule = schedule;
  return partition;
}

PartitionOptions partition_of_ranks(const PipelineOptions& options,
                                    const std::optional<ScheduleName>& schedule) {
  return partition_options(options, options.num_ranks.value_or(1), schedule);
}

void require_fits(const Schedule& schedule, const char* what, int found, const char* option,
                  const std::optional<int>& wanted) {
  if (!wanted || *wanted == found) return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("the schedule {} has {}, but {} = {}", schedule.name,
                                 counted(found, what), option, *wanted),
               .where = "`schedule.own`",
               .remedy = "set " + std::string(option) + " = " + std::to_string(found)});
}

PartitionOptions partition_of_own(const PipelineOptions& options, const Schedule& schedule) {
  PartitionOptions partition = partition_options(options, schedule.num_ranks(), std::nullopt);
  partition.placement.reset();
  partition.stage_to_rank = schedule.stage_map.ranks();
  partition.stages_per_rank = 0;
  partition.num_stages = schedule.num_stages();
  return partition;
}

Candidate own_candidate(const PipelineOptions& options) {
  const Schedule& schedule = *options.schedule.own;
  // Splitting and lowering require a valid schedule.
  const Program bare = to_program(schedule);
  require_proof(bare, verify(bare), schedule.name);
  Candidate candidate;
  if (options.schedule.name) {
    candidate.notes.push_back("`schedule` = \"" + options.schedule.name->text() +
                              "\" is not used: the schedule comes from " + schedule.name);
  }
  require_fits(schedule, "rank", schedule.num_ranks(), "`num_ranks`", options.num_ranks);
  require_fits(schedule, "microbatch", schedule.num_microbatches, "`num_microbatches`",
               options.num_microbatches);
  if (options.partition.placement || !options.partition.stage_to_rank.empty()) {
    throw Error(ErrorKind::kUsage,
                {.what = "`schedule.own` and `stage_to_rank` exclude each other",
                 .where = "`schedule.own`",
                 .remedy = "leave `stage_to_rank` out: the schedule places its stages on ranks " +
                           list_text(schedule.stage_map.ranks())});
  }
  candidate.partition = partition_of_own(options, schedule);
  candidate.partition.stages_per_rank = options.partition.stages_per_rank;
  candidate.own = schedule;
  return candidate;
}

int asked_stages_per_rank(const PartitionOptions& partition, int num_ranks) {
  if (partition.stages_per_rank > 0) return partition.stages_per_rank;
  if (partition.num_stages > 0) return std::max(1, partition.num_stages / num_ranks);
  if (!partition.stage_to_rank.empty())
    return std::max(1, static_cast<int>(partition.stage_to_rank.size()) / num_ranks);
  return 0;
}

// True if these options alone determine the number of stages.
bool has_own_split(const PartitionOptions& partition) {
  return !partition.split_points.empty() || !partition.cuts.empty() || !partition.modules.empty() ||
         partition.layers_per_stage > 0;
}

}  // namespace

Candidate asked_candidate(const Question& question) {
  const PipelineOptions& options = question.options();
  if (options.schedule.own) return own_candidate(options);
  Candidate candidate;
  candidate.name = options.schedule.name.value_or(ScheduleKind::k1F1B);
  candidate.said_by = options.schedule.name ? "`schedule`" : "";
  const auto has_several = [&] {
    const PartitionOptions free = partition_of_ranks(options, std::nullopt);
    return question.placed(free, CutBy::kRule).stage_map().stages_per_rank() > 1;
  };
  if (!options.schedule.name && has_several()) {
    candidate.name = ScheduleKind::kInterleaved1F1B;
    candidate.notes.push_back("several stages a rank and no schedule named: " +
                              candidate.name->text() + " is taken (`schedule`)");
  }
  candidate.partition = partition_of_ranks(options, candidate.name);
  return candidate;
}

Candidate named_candidate(const Question& question, const ScheduleInfo& schedule,
                          int stages_per_rank) {
  const PipelineOptions& options = question.options();
  Candidate candidate;
  candidate.name = schedule.kind;
  candidate.said_by = "`schedule`";
  candidate.partition = partition_of_ranks(options, candidate.name);
  if (stages_per_rank > 0 && options.partition.num_stages == 0 &&
      options.partition.stage_to_rank.empty()) {
    candidate.partition.stages_per_rank = stages_per_rank;
  }
  return candidate;
}

std::vector<int> stages_to_try(const Question& question, const ScheduleInfo& schedule) {
  const ModelSpec& model = question.base().model;
  const PartitionOptions& partition = question.options().partition;
  const int num_ranks = question.options().num_ranks.value_or(1);
  const int asked = asked_stages_per_rank(partition, num_ranks);
  if (asked > 0 || has_own_split(partition)) return {asked};
  if (schedule.single_stage) return {1};
  if (schedule.placement == Placement::kV) return {2};
  // With one stage per rank, only interleaved zero bubble differs from single-stage schedules.
  std::vector<int> result;
  if (schedule.kind == ScheduleKind::kInterleavedZeroBubble) result.push_back(1);
  for (int each = 2; each <= kMostStages; ++each) {
    const int stages = each * num_ranks;
    const bool fits = stages <= model.num_blocks();
    if (fits && (each <= kUsualStages || model.num_blocks() % stages == 0)) result.push_back(each);
  }
  return result;
}

Candidate searched_candidate(const Question& question, Schedule schedule) {
  Candidate candidate;
  candidate.partition = partition_of_own(question.options(), schedule);
  candidate.own = std::move(schedule);
  return candidate;
}

}  // namespace sluice::detail
