#include "command/hang_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sluice/program.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
class HangWatchTest : public ::testing::Test {
 protected:
  HangWatchTest() {
    program_ = lower(make_schedule("1F1B", {2, 0, 2}), {});
    recorder_.begin_program(program_, 1);
    recorder_.begin_step(3);
    recorder_.begin(0, forward_);
    recorder_.end(0, forward_);
    options_.limits.named = milliseconds(200);
    options_.limits.ended = milliseconds(600);
    options_.patience = milliseconds(200);
    options_.waits = [] { return "rank 0 waits for 0RECV_B0 of step 3 from rank 1"; };
    options_.place = [](int rank) { return "rank " + std::to_string(rank) + " (stage 1)"; };
    options_.warn = [this](int, const std::string& what, const std::string&) {
      const std::lock_guard lock(mutex_);
      warnings_.push_back(what);
    };
    options_.end = [this](int rank, const Error& error) {
      const std::lock_guard lock(mutex_);
      ends_.push_back(std::to_string(rank) + ": " + error.what());
    };
    options_.leave = [this] { left_ = true; };
  }
  std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }
  std::vector<std::string> ends() {
    const std::lock_guard lock(mutex_);
    return ends_;
  }
  template <typename Holds>
  static bool eventually(Holds holds) {
    for (int i = 0; i < 2000 && !holds(); ++i) std::this_thread::sleep_for(milliseconds(5));
    return holds();
  }

  const Action forward_ = Action::forward(1, 0);
  Program program_;
  FlightRecorder recorder_{16};
  HangWatchOptions options_;
  std::mutex mutex_;
  std::vector<std::string> warnings_, ends_;
  std::atomic<bool> left_{false};
};

TEST_F(HangWatchTest, WarnsOnceAndThenEndsTheRun) {
  const HangWatch watch({{1, &recorder_}}, options_);
  std::this_thread::sleep_for(milliseconds(700));  // time to learn durations
  EXPECT_TRUE(warnings().empty());
  recorder_.begin(1, forward_);
  ASSERT_TRUE(eventually([&] { return left_.load(); }));
  ASSERT_EQ(warnings().size(), 1u);
  const std::string begin = "rank 1 (stage 1) hangs: it has been in instruction 1 '1F0' of step 3 ";
  EXPECT_TRUE(warnings().front().starts_with(begin)) << warnings().front();
  EXPECT_NE(warnings().front().find(", and the longest of its kind so far took 0.00 s"),
            std::string::npos)
      << warnings().front();
  ASSERT_EQ(ends().size(), 1u);
  EXPECT_TRUE(ends().front().starts_with("1: " + begin)) << ends().front();
  EXPECT_NE(ends().front().find("; rank 0 waits for 0RECV_B0 of step 3 from rank 1; "),
            std::string::npos)
      << ends().front();
}

TEST_F(HangWatchTest, ARankThatWaitsInsideAnInstructionDoesNotHang) {
  options_.waits = [] { return "rank 11 waits in barrier for rank 0, rank 1 waits in all_reduce"; };
  const HangWatch watch({{1, &recorder_}}, options_);
  std::this_thread::sleep_for(milliseconds(700));
  recorder_.begin(1, forward_);
  std::this_thread::sleep_for(milliseconds(1500));
  EXPECT_TRUE(warnings().empty());
  EXPECT_TRUE(ends().empty());
}

TEST_F(HangWatchTest, WithoutOthersItWarnsAlone) {
  options_.ends_run = false;
  const HangWatch watch({{1, &recorder_}}, options_);
  std::this_thread::sleep_for(milliseconds(700));
  recorder_.begin(1, forward_);
  std::this_thread::sleep_for(milliseconds(1500));
  EXPECT_EQ(warnings().size(), 1u);
  EXPECT_TRUE(ends().empty());
}

}  // namespace
}  // namespace sluice::test
