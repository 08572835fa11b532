#include "sluice/parts/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

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
  std::map<int, std::vector<std::string>> names;  // of steps 2 and 3
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

}  // namespace
}  // namespace sluice::test
