// Plans one training step without torch: makes a schedule, lowers it to the instruction list of
// every rank, proves that it completes, and predicts its time.
#include <iostream>

#include "sluice/error.h"
#include "sluice/program.h"
#include "sluice/schedule.h"
#include "sluice/simulate.h"
#include "sluice/verify.h"

int main() try {
  const sluice::Schedule schedule =
      sluice::make_schedule("1F1B", {.num_ranks = 4, .num_microbatches = 8});
  const sluice::Program program = sluice::lower(schedule);
  sluice::require_verified(sluice::verify(program), schedule.name);

  std::cout << "rank 0:";
  for (const sluice::Action& action : program.ranks[0]) std::cout << ' ' << sluice::to_text(action);
  const sluice::Simulation predicted = sluice::simulate(program);  // F = 1, B = 2 units
  std::cout << "\n1F1B on 4 ranks: 8 microbatches take " << predicted.makespan
            << " units, of which " << 100 * predicted.bubble_fraction << "% idle\n";
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
