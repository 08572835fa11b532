#include "launch/stop_signal.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace sluice {
namespace {

using ::testing::ExitedWithCode;

class StopSignalTest : public ::testing::Test {
 protected:
  // The dying process must not have LibTorch's threads.
  StopSignalTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
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
  EXPECT_EXIT(
      {
        const StopSignal stop;
        raise(SIGHUP);
      },
      ExitedWithCode(129), "");
}

TEST_F(StopSignalTest, AfterTheFirstStepItIsARequest) {
  StopSignal stop;
  stop.step_finished();
  EXPECT_FALSE(stop.requested());
  raise(SIGTERM);
  EXPECT_TRUE(stop.requested());
}

TEST_F(StopSignalTest, WhatALauncherPassesOnIsTheSameRequest) {
  StopSignal stop;
  stop.step_finished();
  raise(SIGINT);
  raise(SIGTERM);
  EXPECT_TRUE(stop.requested());
}

TEST_F(StopSignalTest, AClosedTerminalIsARequestUnlessItWasIgnoredBefore) {
  {
    StopSignal stop;
    stop.step_finished();
    raise(SIGHUP);
    EXPECT_TRUE(stop.requested());
  }
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    StopSignal stop;
    stop.step_finished();
    raise(SIGHUP);
    EXPECT_FALSE(stop.requested());
  }
  EXPECT_EQ(std::signal(SIGHUP, before), SIG_IGN) << "put back";
}

TEST_F(StopSignalTest, AClosedPipeAndAFileThatIsTooLargeAreErrorsOfTheirWrites) {
  const StopSignal stop;
  raise(SIGPIPE);
  raise(SIGXFSZ);
  EXPECT_FALSE(stop.requested());
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

TEST_F(StopSignalTest, ARequestToSaveIsTakenOnceAndStopsNothing) {
  StopSignal stop;
  EXPECT_FALSE(stop.take_save_request());
  raise(SIGUSR1);  // before the first step; stays pending
  raise(SIGUSR1);
  stop.step_finished();
  EXPECT_TRUE(stop.take_save_request());
  EXPECT_FALSE(stop.take_save_request());
  raise(SIGUSR1);
  EXPECT_TRUE(stop.take_save_request());
  EXPECT_FALSE(stop.requested());
}

TEST_F(StopSignalTest, ARequestToSaveNeverEndsTheProcess) {
  EXPECT_EXIT(
      {
        {
          StopSignal stop;
          raise(SIGUSR1);
          stop.step_finished();
          raise(SIGTERM);
          raise(SIGUSR1);
          raise(SIGUSR1);
          stop.run_finished();
          raise(SIGUSR1);
        }
        raise(SIGUSR1);
        std::exit(75);
      },
      ExitedWithCode(75), "");
}

TEST_F(StopSignalTest, TheHandlersStayUntilTheProcessEnds) {
  EXPECT_EXIT(
      {
        { StopSignal().step_finished(); }
        raise(SIGTERM);
        std::exit(0);
      },
      ExitedWithCode(0), "");
}

TEST_F(StopSignalTest, OnceTheRunIsOverNoSignalChangesItsExitCode) {
  EXPECT_EXIT(
      {
        StopSignal stop;
        stop.step_finished();
        raise(SIGTERM);
        stop.run_finished();
        raise(SIGTERM);
        raise(SIGINT);
        std::exit(75);
      },
      ExitedWithCode(75), "");
}

}  // namespace
}  // namespace sluice
