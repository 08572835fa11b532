#include "report/pace_watch.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

constexpr double kExpected = 0.1;
constexpr int kFirstWindow = PaceWatch::kWarmUp + PaceWatch::kWindow;

struct Said {
  int step = 0;
  std::string text;
};

// Returns the first warning for steps of this duration [seconds] and these machine states. Both
// functions take the step.
Said warning(
    int steps, const std::function<double(int)>& seconds,
    const std::function<MachineState(int)>& state = [](int) { return MachineState(); }) {
  PaceWatch watch(kExpected);
  for (int step = 1; step <= steps; ++step) {
    if (!watch.add(seconds(step))) continue;
    if (const auto text = watch.judge(state(step))) return {step, *text};
  }
  return {};
}

TEST(PaceWatchTest, SaysWhatIsOffByMoreThanItsTolerance) {
  struct Row {
    const char* what;
    int steps;
    std::function<double(int)> factor;
    int said_at;
  };
  const std::vector<Row> rows = {
      {"as expected", 500, [](int) { return 1.0; }, 0},
      {"a little slower", 500, [](int) { return 1.14; }, 0},
      {"a little faster", 500, [](int) { return 0.86; }, 0},
      {"slower", 500, [](int) { return 1.17; }, kFirstWindow},
      {"faster", 500, [](int) { return 0.5; }, kFirstWindow},
      {"too few steps", kFirstWindow - 1, [](int) { return 2.0; }, 0},
      {"a slow beginning", 500, [](int step) { return step <= 5 ? 9.0 : 1.0; }, 0},
      {"every third step", 500, [](int step) { return step % 3 == 0 ? 4.0 : 1.0; }, 0},
      {"slower later", 500, [](int step) { return step > kFirstWindow ? 1.3 : 1.0; },
       kFirstWindow + PaceWatch::kWindow},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const Said said = warning(row.steps, [&](int step) { return kExpected * row.factor(step); });
    EXPECT_EQ(said.step, row.said_at);
  }
}

TEST(PaceWatchTest, SaysTheNumbers) {
  const Said said = warning(kFirstWindow, [](int) { return 2 * kExpected; });
  EXPECT_EQ(said.text,
            "steps take 2.00 times as long as expected: 200.0 ms, the median of 50 steps, instead "
            "of 100.0 ms; no reason that the run can see");
}

TEST(PaceWatchTest, NamesTheReasonsThatTheMachineShows) {
  struct Row {
    const char* what;
    std::function<void(MachineState&)> after;  // the state after 10 seconds on 4 cores
    std::vector<std::string> reasons;
  };
  const std::vector<Row> rows = {
      {"nothing", [](MachineState&) {}, {}},
      {"own work", [](MachineState& state) { state.busy = state.own = 20; }, {}},
      {"a daemon", [](MachineState& state) { state.busy = 22, state.own = 20; }, {}},
      {"others",
       [](MachineState& state) { state.busy = 35, state.own = 20; },
       {"load: other programs kept 1.5 of the machine's 4 cores busy"}},
      {"stolen",
       [](MachineState& state) { state.stolen = 4; },
       {"load: 10 % of the cores' time went to other virtual machines"}},
      {"clock",
       [](MachineState& state) { state.clock_mhz = 2000; },
       {"clock: the processor runs at 2000 MHz, at the beginning at 3000"}},
      {"a little less clock", [](MachineState& state) { state.clock_mhz = 2800; }, {}},
      {"clock is not said", [](MachineState& state) { state.clock_mhz = 0; }, {}},
      {"swap",
       [](MachineState& state) { state.swapped_pages = 5000; },
       {"memory: 5000 pages were swapped, 0 pages of this run were read from disk"}},
      {"two",
       [](MachineState& state) { state.busy = 10, state.major_faults = 300; },
       {"load: other programs kept 1.0 of the machine's 4 cores busy",
        "memory: 0 pages were swapped, 300 pages of this run were read from disk"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    MachineState before;
    before.cores = 4;
    before.clock_mhz = 3000;
    MachineState after = before;
    after.elapsed = 10;
    row.after(after);
    EXPECT_EQ(reasons_between(before, after), row.reasons);
  }
}

// The clock rate dropped before the first window. The load of other processes rises only in the
// second.
TEST(PaceWatchTest, NamesTheReasonsOfTheWindowThatWasSlow) {
  const auto state = [](int step) {
    MachineState now;
    now.cores = 2;
    now.elapsed = step;
    now.busy = now.own = step;
    if (step > kFirstWindow) now.busy += step - kFirstWindow;
    now.clock_mhz = step > PaceWatch::kWarmUp ? 1500 : 3000;
    return now;
  };
  const Said said = warning(
      500, [](int step) { return step > kFirstWindow ? 2 * kExpected : kExpected; }, state);
  EXPECT_TRUE(said.text.ends_with(
      "; load: other programs kept 1.0 of the machine's 2 cores busy; clock: the processor runs at "
      "1500 MHz, at the beginning at 3000"))
      << said.text;
}

TEST(PaceWatchTest, NamesAStraggler) {
  PaceWatch watch(kExpected);
  watch.straggles(3);
  std::string text;
  for (int step = 1; step <= kFirstWindow; ++step) {
    if (watch.add(2 * kExpected)) text = watch.judge({}).value_or("");
  }
  EXPECT_TRUE(text.ends_with("; rank 3 is a straggler")) << text;
}

}  // namespace
}  // namespace sluice::test
