#include "train/stop_signal.h"

#include <gtest/gtest.h>

#include <csignal>

namespace sluice {
namespace {

using testing::ExitedWithCode;

class StopSignalTest : public testing::Test {
 protected:
  // The process that dies must not be one with LibTorch's threads.
  StopSignalTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(StopSignalTest, BeforeTheFirstStepASignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignal stop;
        raise(SIGINT);
      },
      ExitedWithCode(130), "");
  EXPECT_EXIT(
      {
        const StopSignal stop;
        raise(SIGTERM);
      },
      ExitedWithCode(143), "");
}

TEST_F(StopSignalTest, AfterTheFirstStepItIsARequest) {
  StopSignal stop;
  stop.step_finished();
  EXPECT_FALSE(stop.requested());
  raise(SIGTERM);
  EXPECT_TRUE(stop.requested());
}

TEST_F(StopSignalTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        StopSignal stop;
        stop.step_finished();
        raise(SIGINT);
        raise(SIGINT);
      },
      ExitedWithCode(130), "");
}

}  // namespace
}  // namespace sluice
