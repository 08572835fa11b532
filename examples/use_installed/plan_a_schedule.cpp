// Plans one training step without torch. A model of 16 layers is split over four ranks, and its
// schedule is built, proven to complete, and simulated.
#include <iostream>

#include "sluice/error.h"
#include "sluice/plan.h"

int main() try {
  const sluice::Plan plan =
      sluice::plan_pipeline(sluice::model_spec_of_blocks(16),
                            {.num_ranks = 4, .schedule = "ZBVZeroBubble", .num_microbatches = 8});

  for (const sluice::StageContent& stage : plan.partition.stages) {
    std::cout << "stage " << stage.stage << " on rank " << stage.rank << ": " << stage.num_layers
              << " layers\n";
  }
  std::cout << "rank 0:";
  for (const sluice::Action& action : plan.program.ranks[0])
    std::cout << ' ' << sluice::to_text(action);
  std::cout << '\n'
            << plan.schedule.name << " on 4 ranks: 8 microbatches take " << plan.simulation.makespan
            << " units, of which " << 100 * plan.simulation.bubble_fraction << "% idle\n";
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
