#include "base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "support/expect_error.h"

namespace sluice {
namespace {

using test::error_of;

class LogTest : public testing::Test {
 protected:
  ~LogTest() override {
    set_log_sink({});
    set_log_level(LogLevel::kInfo);
  }
};

TEST_F(LogTest, AMessageIsALineOnStderrThatNamesItsLevel) {
  testing::internal::CaptureStderr();
  log_warning("the disk is slow");
  log_error("it is gone");
  log_info("hello");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "sluice: warning: the disk is slow\nsluice: error: it is gone\nsluice: info: hello\n");
}

TEST_F(LogTest, WhatIsBelowTheLevelIsNotSaid) {
  std::vector<std::string> said;
  set_log_sink([&](LogLevel, std::string_view message) { said.emplace_back(message); });
  log_debug("not said");
  set_log_level(LogLevel::kDebug);
  EXPECT_TRUE(logs(LogLevel::kDebug));
  log_debug("debug");
  set_log_level(LogLevel::kError);
  EXPECT_FALSE(logs(LogLevel::kWarning));
  log_info("not said");
  log_warning("not said");
  log_error("error");
  EXPECT_EQ(said, (std::vector<std::string>{"debug", "error"}));
}

TEST_F(LogTest, ASinkOfOnesOwnGetsEveryMessageOnceAndStderrNone) {
  std::vector<std::string> said;
  set_log_sink([&](LogLevel level, std::string_view message) {
    said.push_back(std::string(to_text(level)) + " " + std::string(message));
  });
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) log_warning("message");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(said, std::vector<std::string>(400, "warning message"));
}

TEST_F(LogTest, LevelsHaveNamesAndOthersAreRefused) {
  for (const char* name : {"debug", "info", "warning", "error"})
    EXPECT_EQ(to_text(log_level(name)), name);
  const Error error = error_of([] { log_level("warn"); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_NE(error.remedy().find("debug"), std::string::npos);
}

}  // namespace
}  // namespace sluice
