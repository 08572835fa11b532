#include "run/executor_checks.h"

#include "run/replicas.h"
#include "sluice/error.h"

namespace sluice {

void check_layout(const Program& program, int rank, const std::map<int, Stage*>& stages,
                  const Transport& transport) {
  const int num_ranks = program.mesh.num_ranks();
  if (transport.rank() != rank || transport.size() != num_ranks) {
    throw Error(
        ErrorKind::kUsage,
        {.what = "rank " + std::to_string(rank) + " of a program of " + std::to_string(num_ranks) +
                 " ranks was given the transport of rank " + std::to_string(transport.rank()) +
                 " of " + std::to_string(transport.size()),
         .where = "Executor",
         .remedy = "make one transport for each rank of the program"});
  }
  for (int stage = 0; stage < program.num_stages(); ++stage) {
    const bool here = program.stage_map.rank_of(stage) == place_of(program.mesh, rank);
    if (here == (stages.count(stage) != 0)) continue;
    throw Error(ErrorKind::kUsage,
                {.what = here ? "stage " + std::to_string(stage) + " is missing"
                              : "stage " + std::to_string(stage) + " is another rank's",
                 .where = "Executor of rank " + std::to_string(rank),
                 .remedy = "give it the stages that Program::stage_map places here"});
  }
}

void check_batch(const Program& program, int rank, const StepBatch& batch) {
  const std::size_t microbatches = batch.microbatches.size();
  const auto refuse = [&](const std::string& what, const std::string& remedy = "") {
    throw Error(ErrorKind::kUsage,
                {.what = what,
                 .where = "rank " + std::to_string(rank) + ", step " + std::to_string(batch.step),
                 .remedy = remedy});
  };
  if (microbatches != static_cast<std::size_t>(program.num_microbatches) ||
      batch.counts.size() != microbatches) {
    refuse("the program has " + std::to_string(program.num_microbatches) +
           " microbatches, the batch " + std::to_string(microbatches) + " with " +
           std::to_string(batch.counts.size()) + " counts");
  }
  if (program.forward_only) return;
  const std::int64_t first =
      std::int64_t{1} * replica_of(program.mesh, rank) * program.num_microbatches;
  if (batch.first_microbatch != first) {
    refuse("the batch begins with microbatch " + std::to_string(batch.first_microbatch) +
               ", those of replica " + std::to_string(replica_of(program.mesh, rank)) +
               " begin with " + std::to_string(first),
           "set StepBatch::first_microbatch");
  }
  if (num_replicas(program.mesh) > 1 && !batch.total_count) {
    refuse("what the batches of all replicas count is not said", "set StepBatch::total_count");
  }
}

}  // namespace sluice
