#include <dirent.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engine/executor.h"
#include "sluice/schedule.h"
#include "support/awkward_models.h"

namespace sluice::test {
namespace {

using Clock = std::chrono::steady_clock;

int num_threads_of_process() {
  int count = 0;
  DIR* directory = opendir("/proc/self/task");
  while (const dirent* entry = readdir(directory)) count += entry->d_name[0] != '.';
  closedir(directory);
  return count;
}

// The kernel may still list a thread for a moment after join.
bool has_at_most(int threads, std::chrono::seconds patience = std::chrono::seconds(10)) {
  for (const auto give_up = Clock::now() + patience; num_threads_of_process() > threads;) {
    if (Clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct Bomb {
  std::atomic<int> calls{0};
  Clock::time_point at;
  void operator()() {
    if (++calls != 3) return;
    at = Clock::now();
    throw std::runtime_error("injected fault");
  }
};

struct ThrowInBackward : torch::autograd::Function<ThrowInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            Bomb* bomb) {
    context->saved_data["bomb"] = reinterpret_cast<std::int64_t>(bomb);
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    (*reinterpret_cast<Bomb*>(context->saved_data["bomb"].toInt()))();
    return {gradients[0] * 2, at::Tensor()};
  }
};

class FailingOps final : public StepOps {
 public:
  explicit FailingOps(Bomb& bomb) : bomb_(bomb) {}
  Work<void> unshard(int) override { return Work<void>::done(); }
  void reshard(int) override {}
  Work<void> reduce_gradients(int /*stage*/, std::optional<int> /*microbatch*/) override {
    return Work<void>::done();
  }
  Work<void> reduce_tied(int) override { return Work<void>::done(); }
  Work<void> reduce_loss() override { return Work<void>::done(); }
  Work<void> gather_outputs() override { return Work<void>::done(); }
  Work<void> reduce_norm() override { return Work<void>::done(); }
  IdleWork partial_norm(int) override { return {}; }
  Work<void> update(int) override { return Work<void>::done(); }
  void optimizer_step() override { bomb_(); }

 private:
  Bomb& bomb_;
};

enum class Where { kForward, kBackward, kTensorHook, kLoss, kData, kProduced, kAfter };

Model model_with(Where where, std::size_t layer, Bomb& bomb) {
  Model model =
      with_layers(layer, {workshop("layer" + std::to_string(layer), {"hidden"}, {"hidden"},
                                   [&bomb, where](Workshop& m, const Tensors& in) {
                                     if (where == Where::kForward) bomb();
                                     at::Tensor y = m.linear(in[0]);
                                     if (where == Where::kBackward)
                                       y = ThrowInBackward::apply(y, &bomb);
                                     if (where == Where::kTensorHook) {
                                       y.register_hook([&bomb](const at::Tensor& gradient) {
                                         bomb();
                                         return gradient;
                                       });
                                     }
                                     return Tensors{y};
                                   })});
  if (where == Where::kLoss) {
    model.loss = [&bomb](const Values& outputs, const Values& batch) {
      bomb();
      return squared_error(outputs, batch);
    };
  }
  return model;
}

void expect_stops(const std::string& schedule, Where where, std::size_t layer) {
  const std::string text = schedule + ", " + std::to_string(static_cast<int>(where)) + ", layer " +
                           std::to_string(layer);
  const Program program = lowered(make_schedule(schedule, {2, 0, 4}));
  Bomb bomb;
  auto steps = user_batches(2, 4, {2});
  if (where == Where::kData) {
    const Values values = steps[0].microbatches.at(1);
    MicrobatchList list;
    for (int m = 0; m < 4; ++m) {
      list.push_back([&bomb, values] {
        bomb();
        return values;
      });
    }
    steps[0].microbatches = std::move(list);
  }
  HarnessOptions options;
  options.per_rank = [&](int, CallbackObserver& observer) {
    if (where == Where::kProduced) observer.on_produced = [&](const Action&, Tensors&) { bomb(); };
    if (where == Where::kAfter) observer.on_end = [&](int, const Action&) { bomb(); };
  };
  // some sanitizers start a helper thread together with the first thread
  std::thread([] {}).join();
  const int threads_before = num_threads_of_process();
  const auto got = train_in_pipeline(model_with(where, layer, bomb), program, steps, options);
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - bomb.at).count(), 30)
      << text << ": a wait ended by its deadline";
  EXPECT_TRUE(has_at_most(threads_before)) << num_threads_of_process() << " threads, " << text;
  EXPECT_GE(bomb.calls, 3) << text;
  EXPECT_EQ(got.errors[0], got.errors[1]) << text;
  for (const char* part : {"injected fault; rank ", ", instruction ", "step 1"})
    EXPECT_NE(got.errors[0].find(part), std::string::npos) << text << ": " << got.errors[0];
  if (where != Where::kAfter) {
    EXPECT_NE(got.errors[0].find("(stage "), std::string::npos) << got.errors[0];
  }
  EXPECT_NE((got.flight_records[0] + got.flight_records[1]).find("FAILED"), std::string::npos);
}

TEST(FaultsTest, InUserCodeStopAllRanksAtOnceWithTheirPlace) {
  for (const char* schedule : {"1F1B", "ZBVZeroBubble", "DualPipeV"}) {
    for (const Where where : {Where::kForward, Where::kBackward, Where::kTensorHook}) {
      for (const std::size_t layer : {1, 4, 6}) expect_stops(schedule, where, layer);
    }
    for (const Where where : {Where::kLoss, Where::kData, Where::kProduced, Where::kAfter})
      expect_stops(schedule, where, 1);
  }
}

TEST(FaultsTest, OnTwoRanksAtOnceAreReportedAsOne) {
  const Program program = lowered(make_schedule("GPipe", {2, 1, 4}));
  for (int round = 0; round < 20; ++round) {
    HarnessOptions options;
    options.per_rank = [&](int rank, CallbackObserver& observer) {
      observer.on_begin = [rank](int, const Action&) {
        throw std::runtime_error("fault of rank " + std::to_string(rank));
      };
    };
    const auto got = train_in_pipeline(user_model(UserModel::kMlp, 6), program,
                                       user_batches(1, 4, {2}), options);
    // run_ranks reports the rank that failed first. A rank that failed on its own may keep its own
    // error.
    for (const std::string& error : got.errors)
      EXPECT_EQ(error.substr(0, 14), "fault of rank ") << error;
  }
}

TEST(FaultsTest, InAForwardLeaveNothingInTheStage) {
  MemoryLedger ledger(1);
  const MemoryLedger::Scope scope(ledger, 0);
  set_one_thread();
  Bomb bomb;
  const Program program = lowered(make_schedule("GPipe", {1, 1, 4}));
  const auto transports = make_local_transports(1);
  const Model model = model_with(Where::kForward, 4, bomb);
  Stage stage(0, Chunk(model.layers, 0, {}, {"prediction"}));
  FailingOps ops(bomb);
  Executor executor(program, 0, {&stage}, *transports[0], ops, model.loss, {});
  const auto steps = user_batches(1, 4, {64});
  const std::int64_t before = ledger.live_bytes(0);
  EXPECT_THROW(executor.run_step(steps[0]), Error);
  std::int64_t sums = 0;  // gradient sums keep their memory for the next step
  for (const ParameterInfo& parameter : stage.parameters())
    sums += static_cast<std::int64_t>(parameter.tensor.nbytes());
  EXPECT_EQ(ledger.live_bytes(0), before + sums);
}

TEST(FaultsTest, InTheUpdateAreNamedWithTheirInstruction) {
  Bomb bomb;
  bomb.calls = 2;
  const Program program = lowered(make_schedule("GPipe", {1, 1, 2}));
  const auto transports = make_local_transports(1);
  const Model model = user_model(UserModel::kMlp, 2);
  Stage stage(0, Chunk(model.layers, 0, {}, {"prediction"}));
  FailingOps ops(bomb);
  Executor executor(program, 0, {&stage}, *transports[0], ops, model.loss, {});
  try {
    executor.run_step(user_batches(1, 2, {2})[0]);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'OPTIMIZER_STEP', step 1"), std::string::npos)
        << error.what();
  }
  ASSERT_TRUE(transports[0]->failure().has_value());
}

}  // namespace
}  // namespace sluice::test
