#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "engine/executor.h"
#include "engine/idle_works.h"
#include "engine/one_stage.h"
#include "plan/passes/passes.h"
#include "support/expect_error.h"
#include "support/user_batches.h"

namespace sluice::test {
namespace {

using Clock = std::chrono::steady_clock;

class RecordingOps final : public StepOps {
 public:
  std::vector<std::string> calls;
  std::string fails;  // the wait that throws
  std::function<void()> on_update;
  Work<void> unshard(int stage) override { return post("unshard " + std::to_string(stage)); }
  void reshard(int stage) override { calls.push_back("reshard " + std::to_string(stage)); }
  Work<void> reduce_gradients(int stage, std::optional<int> microbatch) override {
    return post("reduce_gradients " + std::to_string(stage) +
                (microbatch ? " of " + std::to_string(*microbatch) : ""));
  }
  Work<void> reduce_tied(int group) override {
    return post("reduce_tied " + std::to_string(group));
  }
  Work<void> reduce_loss() override { return post("reduce_loss"); }
  Work<void> gather_outputs() override { return post("gather_outputs"); }
  Work<void> reduce_norm() override { return post("reduce_norm"); }
  IdleWork partial_norm(int stage) override {
    calls.push_back("partial_norm " + std::to_string(stage));
    return [this, stage, left = 2]() mutable {
      calls.push_back("piece of " + std::to_string(stage));
      return --left > 0;
    };
  }
  Work<void> update(int stage) override {
    if (on_update) on_update();
    return post("update " + std::to_string(stage));
  }
  void optimizer_step() override { calls.push_back("optimizer_step"); }

 private:
  Work<void> post(const std::string& call) {
    calls.push_back(call);
    return Work<void>([this, call] {
      calls.push_back("waits for " + call);
      if (call == fails) throw std::runtime_error("injected fault");
    });
  }
};

TEST(StepOpsTest, AsksItsStepOpsForEveryInstructionThatIsNoComputeAndNoTransfer) {
  LowerOptions lower_options;
  lower_options.shard_parameters = lower_options.reduce_gradients = true;
  lower_options.loss = lower_options.norm = lower_options.optimizer_step = true;
  OneStage one(lower(make_schedule("GPipe", {1, 0, 2}), lower_options));
  RecordingOps ops;
  Executor executor(one.program, 0, {&one.stage}, *one.transports[0], ops, &squared_error, {});
  const StepBatch batch = user_batches(1, 2, {2})[0];
  executor.run_step(batch);
  EXPECT_EQ(ops.calls, (std::vector<std::string>{
                           "unshard 0", "waits for unshard 0", "reduce_gradients 0", "reshard 0",
                           "reduce_loss", "waits for reduce_gradients 0", "reduce_norm",
                           "waits for reduce_loss", "waits for reduce_norm", "optimizer_step"}));
  // A step without an update still gathers the parameters for its compute.
  ops.calls.clear();
  executor.find_non_finite(batch);
  EXPECT_EQ(ops.calls, (std::vector<std::string>{"unshard 0", "waits for unshard 0", "reshard 0"}));
}

Program program_of_row(const std::vector<std::string>& row) {
  Program program = to_program(make_schedule("GPipe", {1, 0, 1}));
  program.ranks[0].clear();
  for (const std::string& text : row) program.ranks[0].push_back(parse_action(text));
  require_verified(verify(program), "row");
  return program;
}

TEST(StepOpsTest, WaitsForAPostAtItsFirstUserAndForTheRestAtTheEndOfTheRow) {
  OneStage one(
      program_of_row({"0UNSHARD", "0F0", "REDUCE_LOSS", "0B0", "0REDUCE_GRAD", "0RESHARD"}));
  RecordingOps ops;
  CallbackObserver observer;
  observer.on_begin = [&](int, const Action& action) { ops.calls.push_back(to_text(action)); };
  observer.on_end = [&](int, const Action& action) {
    ops.calls.push_back("end of " + to_text(action));
  };
  ExecutorOptions options;
  options.observers = {&observer};
  Executor executor(one.program, 0, {&one.stage}, *one.transports[0], ops, &squared_error, options);
  executor.run_step(user_batches(1, 1, {2})[0]);
  EXPECT_EQ(ops.calls, (std::vector<std::string>{
                           "0UNSHARD", "unshard 0", "end of 0UNSHARD", "0F0", "waits for unshard 0",
                           "end of 0F0", "REDUCE_LOSS", "reduce_loss", "end of REDUCE_LOSS", "0B0",
                           "end of 0B0", "0REDUCE_GRAD", "reduce_gradients 0",
                           "end of 0REDUCE_GRAD", "0RESHARD", "reshard 0", "waits for reduce_loss",
                           "waits for reduce_gradients 0", "end of 0RESHARD"}));
}

TEST(StepOpsTest, ANormOfAStageIsTakenToItsEndByWhatUsesIt) {
  OneStage one(program_of_row(
      {"0F0", "0B0", "0PARTIAL_NORM", "REDUCE_LOSS", "REDUCE_NORM", "0UPDATE", "OPTIMIZER_STEP"}));
  RecordingOps ops;
  Executor executor(one.program, 0, {&one.stage}, *one.transports[0], ops, &squared_error, {});
  executor.run_step(user_batches(1, 1, {2})[0]);
  EXPECT_EQ(ops.calls, (std::vector<std::string>{
                           "partial_norm 0", "reduce_loss", "piece of 0", "piece of 0",
                           "reduce_norm", "waits for reduce_loss", "waits for reduce_norm",
                           "update 0", "waits for update 0", "optimizer_step"}));
}

TEST(StepOpsTest, ARankThatHasBegunToUpdateItsStagesEndsItWhoeverFails) {
  OneStage one(
      program_of_row({"0F0", "0B0", "REDUCE_LOSS", "REDUCE_NORM", "0UPDATE", "OPTIMIZER_STEP"}));
  RecordingOps ops;
  ops.on_update = [&] {
    one.transports[0]->abort({0, ErrorKind::kPeer, "another rank has failed"});
  };
  Executor executor(one.program, 0, {&one.stage}, *one.transports[0], ops, &squared_error, {});
  executor.run_step(user_batches(1, 1, {2})[0]);
  EXPECT_EQ(ops.calls.back(), "optimizer_step");
  EXPECT_THROW(executor.run_step(user_batches(1, 1, {2})[0]), Error);
}

// Rank 0 waits for a gradient that rank 1 holds back until rank 0 has done its idle work.
TEST(StepOpsTest, ANormOfAStageIsTakenWhileItsRankWaitsForAMessage) {
  Program program = lower(make_schedule("LoopedBFS", {2, 2, 2}), {});
  program = add_partial_norms(add_optimizer_step(std::move(program), /*with_norm=*/true));
  require_verified(verify(program), "LoopedBFS");
  struct Pieces final : ExecutorObserver {
    void begin(int, const Action& action) override { running = action; }
    void begin_idle_work(const Action& action) override {
      places.push_back(to_text(action) + " in " + to_text(running));
    }
    void end_idle_work(const Action&) override { ++done; }
    Action running;
    std::vector<std::string> places;
    std::atomic<int> done{0};
  } pieces;
  HarnessOptions options;
  options.observers_of = [&](int rank) {
    return rank == 0 ? std::vector<ExecutorObserver*>{&pieces} : std::vector<ExecutorObserver*>{};
  };
  Action delayed;  // rank 1's first backward of stage 1
  for (const Action& action : program.ranks[1]) {
    if (action.kind != ActionKind::kBackward || action.stage != 1) continue;
    delayed = action;
    break;
  }
  options.per_rank = [&](int rank, CallbackObserver& observer) {
    if (rank == 0) return;
    observer.on_begin = [&](int, const Action& action) {
      const auto end = Clock::now() + std::chrono::seconds(20);
      while (action == delayed && pieces.done < 2 && Clock::now() < end) std::this_thread::yield();
    };
  };
  const TrainedModel got =
      train_in_pipeline(user_model(UserModel::kMlp, 4), program, user_batches(1, 2, {2}), options);
  for (const std::string& error : got.errors) EXPECT_EQ(error, "");
  const std::string place = "2PARTIAL_NORM in 0B" + std::to_string(delayed.microbatch);
  EXPECT_EQ(pieces.places, (std::vector<std::string>{place, place}));
}

TEST(IdleWorksTest, AreDonePieceByPieceUntilTheWaitIsOver) {
  const Program program = program_of_row({"0F0", "0B0", "0PARTIAL_NORM", "REDUCE_NORM"});
  struct Count final : ExecutorObserver {
    void begin_idle_work(const Action& action) override { begun.push_back(to_text(action)); }
    std::vector<std::string> begun;
  } count;
  const ObserverList observers({&count});
  IdleWorks works(program, observers);
  int pieces = 0;
  const Action norm = Action::make(ActionKind::kPartialNorm, 0);
  works.add(norm, [&] { return ++pieces < 4; });
  works.add(norm, {});
  works.run_until([] { return true; });
  EXPECT_EQ(pieces, 0);
  works.run_until([&] { return pieces == 2; });
  EXPECT_EQ(pieces, 2);
  EXPECT_EQ(count.begun, (std::vector<std::string>{"0PARTIAL_NORM", "0PARTIAL_NORM"}));
  works.end_used(Action::make(ActionKind::kReduceLoss));
  EXPECT_EQ(pieces, 2);
  works.end_used(Action::make(ActionKind::kReduceNorm));
  EXPECT_EQ(pieces, 4);
  EXPECT_EQ(count.begun.size(), 2u);
  works.run_until([] { return false; });
  EXPECT_EQ(pieces, 4);
}

TEST(StepOpsTest, APostThatFailsIsNamedWithTheInstructionThatWaitsForIt) {
  OneStage one(program_of_row({"0F0", "0B0", "0REDUCE_GRAD", "REDUCE_NORM", "OPTIMIZER_STEP"}));
  RecordingOps ops;
  ops.fails = "reduce_gradients 0";
  Executor executor(one.program, 0, {&one.stage}, *one.transports[0], ops, &squared_error, {});
  const std::string message = message_of([&] { executor.run_step(user_batches(1, 1, {2})[0]); });
  EXPECT_NE(message.find("injected fault"), std::string::npos) << message;
  EXPECT_NE(message.find("instruction 3 'REDUCE_NORM', step 1, waiting for '0REDUCE_GRAD'"),
            std::string::npos)
      << message;
  EXPECT_EQ(ops.calls.back(), "waits for reduce_gradients 0");
}

}  // namespace
}  // namespace sluice::test
