#include "run/executor_checks.h"

#include "sluice/error.h"

namespace sluice {

void check_layout(const Program& program, int rank, const std::map<int, Stage*>& stages,
                  const Transport& transport) {
  if (transport.rank() != rank || transport.size() != program.num_ranks()) {
    throw Error(
        ErrorKind::kUsage,
        {.what = "rank " + std::to_string(rank) + " of a program of " +
                 std::to_string(program.num_ranks()) + " ranks was given the transport of rank " +
                 std::to_string(transport.rank()) + " of " + std::to_string(transport.size()),
         .where = "Executor",
         .remedy = "make one transport for each rank of the program"});
  }
  for (int stage = 0; stage < program.num_stages(); ++stage) {
    const bool here = program.stage_map.rank_of(stage) == rank;
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
  if (microbatches == static_cast<std::size_t>(program.num_microbatches) &&
      batch.counts.size() == microbatches) {
    return;
  }
  throw Error(ErrorKind::kUsage,
              {.what = "the program has " + std::to_string(program.num_microbatches) +
                       " microbatches, the batch " + std::to_string(microbatches) + " with " +
                       std::to_string(batch.counts.size()) + " counts",
               .where = "rank " + std::to_string(rank) + ", step " + std::to_string(batch.step)});
}

}  // namespace sluice
