#include "sluice/parts/observers.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "engine/observer_list.h"
#include "engine/step_timer.h"
#include "sluice/schedule.h"
#include "support/user_batches.h"

namespace sluice::test {
namespace {

TEST(TraceTest, HasEveryInstructionOfTheStepsThatWereAskedForOnItsRow) {
  const Program program = lowered(make_schedule("DualPipeV", {2, 2, 4}));
  std::vector<std::unique_ptr<TraceRecorder>> recorders;
  for (int rank = 0; rank < 2; ++rank)
    recorders.push_back(std::make_unique<TraceRecorder>(rank, 2, 3));
  HarnessOptions options;
  options.observers_of = [&](int rank) {
    return std::vector<ExecutorObserver*>{recorders[rank].get()};
  };
  train_in_pipeline(user_model(UserModel::kMlp, 6), program, user_batches(4, 4, {2}), options);

  std::vector<TraceEvent> events;
  for (const auto& recorder : recorders) {
    const auto& own = recorder->events();
    events.insert(events.end(), own.begin(), own.end());
  }
  const auto trace = nlohmann::json::parse(to_chrome_trace(events));
  std::map<int, std::vector<std::string>> names;
  std::set<std::string> processes, waits;
  double first = 1e300;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") {
      if (event.at("name") == "process_name") processes.insert(event.at("args").at("name"));
      continue;
    }
    EXPECT_GE(event.at("dur").get<double>(), 0);
    first = std::min(first, event.at("ts").get<double>());
    const int step = event.at("args").at("step");
    EXPECT_TRUE(step == 2 || step == 3);
    if (event.at("cat") == "waits") {
      waits.insert(event.at("name"));
      EXPECT_NE(event.at("tid"), static_cast<int>(TraceRow::kCompute));
    } else {
      names[event.at("pid")].push_back(event.at("name"));
    }
  }
  EXPECT_EQ(first, 0.0);
  EXPECT_EQ(processes, (std::set<std::string>{"rank 0", "rank 1"}));
  EXPECT_FALSE(waits.empty());
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::string> expected;
    for (int step = 0; step < 2; ++step) {
      for (const Action& action : program.ranks[rank]) expected.push_back(to_text(action));
    }
    EXPECT_EQ(names[rank], expected);
  }
}

TEST(TraceTest, AnActionBeginsWhenWhatItWaitedForIsThere) {
  const Program program = lowered(make_schedule("1F1B", {2, 1, 1}));
  TraceRecorder recorder(1, 1, 1);
  HarnessOptions options;
  options.observers_of = [&](int rank) {
    return rank == 1 ? std::vector<ExecutorObserver*>{&recorder} : std::vector<ExecutorObserver*>{};
  };
  train_in_pipeline(user_model(UserModel::kMlp, 2), program, user_batches(1, 1, {2}), options);
  const TraceEvent *wait = nullptr, *forward = nullptr;
  for (const TraceEvent& event : recorder.events()) {
    if (event.name == "wait of 1F0") wait = &event;
    if (event.name == "1F0") forward = &event;
  }
  ASSERT_TRUE(wait && forward);
  EXPECT_LE(wait->start + wait->duration, forward->start);
}

// As in an executor, the recorder comes before the timer.
struct Timed {
  FlightRecorder recorder{16};
  StepTimer timer{recorder};
  ObserverList both{{&recorder, &timer}};
  const StepTimes& times() const { return timer.times(); }
};

TEST(StepTimerTest, CountsEveryInstructionToTheShareThatItBelongsTo) {
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  const std::vector<std::pair<const char*, double StepTimes::*>> expected = {
      {"0F0", &StepTimes::compute},
      {"0I0", &StepTimes::compute},
      {"0SEND_F0", &StepTimes::wait_send},
      {"1SEND_B0", &StepTimes::wait_send},
      {"1RECV_F0", &StepTimes::wait_receive},
      {"REDUCE_LOSS", &StepTimes::reduction},
      {"0REDUCE_GRAD", &StepTimes::reduction},
      {"0UNSHARD", &StepTimes::reduction},
      {"0PARTIAL_NORM", &StepTimes::reduction},
      {"0UPDATE", &StepTimes::optimizer},
      {"OPTIMIZER_STEP", &StepTimes::optimizer}};
  for (const auto& [text, share] : expected) {
    const Action action = parse_action(text);
    Timed timed;
    timed.both.tell(&ExecutorObserver::begin_step, 1);
    timed.both.tell(&ExecutorObserver::begin, 0, action);
    pause();
    timed.both.tell(&ExecutorObserver::end, 0, action);
    timed.both.tell(&ExecutorObserver::end_step);
    EXPECT_GE(timed.times().*share, 1e-3) << text;
    const StepTimes& times = timed.times();
    EXPECT_EQ(
        times.compute + times.wait_receive + times.wait_send + times.reduction + times.optimizer,
        times.*share)
        << text;
  }
}

TEST(StepTimerTest, WaitingIsNoComputeButForAMessageOrAReduction) {
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  Timed timed;
  timed.both.tell(&ExecutorObserver::begin_step, 1);
  timed.both.tell(&ExecutorObserver::begin, 0, Action::forward(1, 0));
  timed.both.tell(&ExecutorObserver::waiting, Action::forward(1, 0));  // waits for UNSHARD
  pause();
  timed.both.tell(&ExecutorObserver::arrived, Action::forward(1, 0), {});
  timed.both.tell(&ExecutorObserver::waiting, Action::forward(1, 0));
  pause();
  timed.both.tell(&ExecutorObserver::arrived, Action::forward(1, 0), {at::Tensor()});
  timed.both.tell(&ExecutorObserver::end, 0, Action::forward(1, 0));
  timed.both.tell(&ExecutorObserver::end_step);
  EXPECT_GE(timed.times().reduction, 1e-3);
  EXPECT_GE(timed.times().wait_receive, 1e-3);
  EXPECT_LE(timed.times().compute + timed.times().wait_receive + timed.times().reduction,
            timed.times().total);
}

TEST(StepTimerTest, TheSharesOfEveryRankAddUpToItsStep) {
  for (const char* schedule : {"1F1B", "ZBVZeroBubble", "DualPipeV"}) {
    const Program program = lowered(make_schedule(schedule, {2, 0, 4}));
    std::array<Timed, 2> timed;
    HarnessOptions options;
    options.observers_of = [&](int rank) {
      return std::vector<ExecutorObserver*>{&timed[rank].recorder, &timed[rank].timer};
    };
    train_in_pipeline(user_model(UserModel::kMlp, 6), program, user_batches(2, 4, {2}), options);
    for (const Timed& rank : timed) {
      const StepTimes& times = rank.times();
      for (const double share : {times.compute, times.wait_receive, times.wait_send,
                                 times.reduction, times.optimizer, times.other()}) {
        EXPECT_GE(share, -1e-9);
        EXPECT_LE(share, times.total);
      }
      EXPECT_GT(times.compute, 0);
      EXPECT_NEAR(times.compute + times.wait_receive + times.wait_send + times.reduction +
                      times.optimizer + times.other(),
                  times.total, 1e-9);
    }
  }
}

std::mutex names_mutex;
std::multiset<std::string> names_of_ranges;

TEST(ProfilerRangesTest, EveryInstructionIsARangeOfTorchsProfilersUnderItsName) {
  const at::CallbackHandle handle =
      at::addGlobalCallback(at::RecordFunctionCallback([](const at::RecordFunction& range) {
                              const std::lock_guard lock(names_mutex);
                              names_of_ranges.insert(range.name());
                              return std::unique_ptr<at::ObserverContext>();
                            }).scopes({at::RecordScope::USER_SCOPE}));
  const Program program = lowered(make_schedule("DualPipeV", {2, 2, 4}));
  train_in_pipeline(user_model(UserModel::kMlp, 6), program, user_batches(1, 4, {2}), {});
  at::removeCallback(handle);
  std::multiset<std::string> expected;
  for (const std::vector<Action>& row : program.ranks) {
    for (const Action& action : row) expected.insert(to_text(action));
  }
  EXPECT_EQ(names_of_ranges, expected);
}

}  // namespace
}  // namespace sluice::test
