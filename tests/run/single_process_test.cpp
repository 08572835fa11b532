#include <gtest/gtest.h>
#include <stdlib.h>

#include "sluice/error.h"
#include "sluice/parts/rank_threads.h"

namespace sluice {
namespace {

// What is said when the environment has only this of a launcher; "" for nothing.
std::string refusal(const char* variable, const char* value) {
  setenv(variable, value, 1);
  std::string message;
  try {
    require_single_process();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    message = error.what();
  }
  unsetenv(variable);
  return message;
}

TEST(SingleProcessTest, RefusesToBeOneOfSeveralProcesses) {
  for (const std::string variable :
       {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    EXPECT_EQ(refusal(variable.c_str(), "4"),
              variable +
                  " = 4: several processes are not built yet, each would train the whole pipeline; "
                  "environment; start the program once, without a launcher: ranks are threads");
  }
}

TEST(SingleProcessTest, OneProcessIsFine) {
  EXPECT_EQ(refusal("WORLD_SIZE", "1"), "");
  EXPECT_EQ(refusal("WORLD_SIZE", ""), "");  // as unset
  EXPECT_NO_THROW(require_single_process());
}

TEST(SingleProcessTest, RefusesWhatIsNoNumber) {
  for (const std::string value : {"two", "2x", "0", "-1", " 1", "99999999999"}) {
    EXPECT_EQ(refusal("WORLD_SIZE", value.c_str()),
              "WORLD_SIZE = '" + value +
                  "' is not a number of processes; environment; unset WORLD_SIZE: a run is one "
                  "process");
  }
}

}  // namespace
}  // namespace sluice
