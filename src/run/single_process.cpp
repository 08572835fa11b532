
#include <array>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "sluice/error.h"
#include "sluice/parts/rank_threads.h"

namespace sluice {
namespace {

// torchrun; mpirun of Open MPI and of MPICH; srun.
constexpr std::array kProcessCounts = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                       "SLURM_STEP_NUM_TASKS"};

}  // namespace

void require_single_process() {
  for (const char* name : kProcessCounts) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    const std::string_view text(value);
    int processes = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), processes);
    if (error != std::errc() || rest != text.data() + text.size() || processes < 1) {
      throw Error(ErrorKind::kUsage,
                  {.what = std::string(name) + " = '" + value + "' is not a number of processes",
                   .where = "environment",
                   .remedy = std::string("unset ") + name + ": a run is one process"});
    }
    if (processes == 1) continue;
    throw Error(
        ErrorKind::kUsage,
        {.what = std::string(name) + " = " + value +
                 ": several processes are not built yet, each would train the whole pipeline",
         .where = "environment",
         .remedy = "start the program once, without a launcher: ranks are threads"});
  }
}

}  // namespace sluice
