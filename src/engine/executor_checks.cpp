#include "engine/executor_checks.h"

#include "base/format.h"
#include "engine/replicas.h"
#include "sluice/error.h"

namespace sluice {

void check_layout(const Program& program, int rank, const std::map<int, Stage*>& stages,
                  const Transport& transport) {
  const int num_ranks = program.mesh.num_ranks();
  if (transport.rank() != rank || transport.size() != num_ranks) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("rank {} of {} ranks was given the transport of rank {} of {}",
                                   rank, num_ranks, transport.rank(), transport.size()),
                 .where = "Executor",
                 .remedy = "make one transport for each rank of the program"});
  }
  for (int stage = 0; stage < program.num_stages(); ++stage) {
    const bool here = program.stage_map.rank_of(stage) == place_of(program.mesh, rank);
    if (here == (stages.count(stage) != 0)) continue;
    throw Error(ErrorKind::kUsage,
                {.what = here ? formatted("stage {} is missing", stage)
                              : formatted("stage {} belongs to another rank", stage),
                 .where = "Executor of rank " + std::to_string(rank),
                 .remedy = "give it the stages that Program::stage_map places here"});
  }
}

void check_batch(const Program& program, int rank, const StepBatch& batch) {
  const std::size_t microbatches = batch.microbatches.size();
  const auto refuse = [&](const std::string& what, const std::string& remedy = "") {
    throw Error(
        ErrorKind::kUsage,
        {.what = what, .where = formatted("rank {}, step {}", rank, batch.step), .remedy = remedy});
  };
  if (microbatches != static_cast<std::size_t>(program.num_microbatches) ||
      batch.counts.size() != microbatches) {
    refuse(formatted("the program has {} microbatches, but the batch has {} with {} counts",
                     program.num_microbatches, microbatches, batch.counts.size()));
  }
  if (program.forward_only) return;
  const std::int64_t first =
      std::int64_t{1} * replica_of(program.mesh, rank) * program.num_microbatches;
  if (batch.first_microbatch != first) {
    refuse(formatted("the batch starts at microbatch {}, but replica {} starts at {}",
                     batch.first_microbatch, replica_of(program.mesh, rank), first),
           "set StepBatch::first_microbatch");
  }
  if (num_replicas(program.mesh) > 1 && !batch.total_count) {
    refuse("the count over the batches of all replicas is missing", "set StepBatch::total_count");
  }
}

}  // namespace sluice
