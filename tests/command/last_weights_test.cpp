#include "command/saves.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <thread>

#include "base/log.h"
#include "io/hf_shards.h"
#include "io/step_name.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/parts/saver.h"
#include "support/all_ranks_here.h"
#include "support/callback_observer.h"
#include "support/temp_directory.h"
#include "support/train_pipeline.h"
#include "support/user_models.h"

namespace sluice::test {
namespace {

constexpr int kRanks = 2;

// Trains on two ranks and checks the weights that are saved after a failure.
class LastWeightsTest : public testing::Test {
 protected:
  LastWeightsTest() {
    model_.layers = make_user_layers(UserModel::kMlp, 2, 4, 0.0);
    model_.inputs = {"x", "y"};
    model_.outputs = {"prediction"};
    model_.loss = squared_error;
    const Program program = training_program("1F1B", kRanks, 2);
    plan_ = plan_of(model_, even_partition(model_, program.stage_map), program);
    config_.checkpoint.folder = folder_ / "ck";
    target_ = [this](std::int64_t step) {
      SaveTarget target;
      target.path = folder_ / ("ck/" + io::step_name(step));
      target.head.run = "0123456789abcdef";
      target.head.step = step;
      return target;
    };
    set_log_sink([this](LogLevel, std::string_view message) { said_ += message; });
  }
  ~LastWeightsTest() override { set_log_sink({}); }

  static StepBatch batch(std::int64_t step) {
    StepBatch result;
    result.step = step;
    for (int m = 0; m < 2; ++m) {
      result.microbatches.push_back(
          {{"x", at::full({2, 4}, 0.1 * double(step))}, {"y", at::ones({2, 4})}});
      result.counts.push_back(8);
    }
    return result;
  }

  // Records the weights after each of `steps` steps, or until something throws.
  void run(std::int64_t steps, const std::function<void(int rank, CallbackObserver&)>& spoil,
           const std::function<void(int rank, Pipeline&, std::int64_t step)>& after_step = {}) {
    try {
      run_ranks(transports_, 1, nullptr, [&](Transport& transport) {
        CallbackObserver& observer = observers_[transport.rank()];
        if (spoil) spoil(transport.rank(), observer);
        RunOptions options;
        options.training_observers = [&](int /*rank*/) {
          return std::vector<ExecutorObserver*>{&observer};
        };
        InterruptedRank& own = interrupted_.at(transport.rank());
        own.pipeline = std::make_unique<Pipeline>(model_, plan_, transport, options);
        own.trainer = std::make_unique<Trainer>(*own.pipeline, OptimizerOptions());
        own.saves = std::make_unique<RankSaves>(config_.checkpoint, target_, *own.pipeline, false);
        for (std::int64_t step = 1; step <= steps; ++step) {
          own.trainer->step(batch(step), 0.1);
          auto& weights = weights_[transport.rank()];
          weights.clear();
          for (const ParameterInfo& info : own.pipeline->named_parameters())
            weights.emplace_back(info.name, info.tensor.detach().clone());
          if (after_step) after_step(transport.rank(), *own.pipeline, step);
        }
      });
    } catch (const Error&) {
    }
  }

  std::optional<LastWeights> save() { return save_last_weights(target_, interrupted_, ranks_, 1); }

  void expect_saved(const std::string& path) const {
    const HfDirectory saved(path);
    for (const auto& of_rank : weights_) {
      for (const auto& [name, value] : of_rank) {
        const TensorSource source = saved.shards().locate(name);
        EXPECT_TRUE(at::equal(source.file->read(source.entry->name), value)) << name;
      }
    }
  }

  const TempDirectory folder_;
  RunConfig config_;
  TargetOfStep target_;
  Model model_;
  Plan plan_;
  const LocalRanks ranks_ = all_ranks_here(kRanks);
  const std::vector<std::unique_ptr<Transport>> transports_ = ranks_.connect();
  std::array<CallbackObserver, kRanks> observers_;
  PerRank<InterruptedRank> interrupted_ = PerRank<InterruptedRank>(ranks_);
  std::array<std::vector<std::pair<std::string, at::Tensor>>, kRanks> weights_;
  std::string said_;
};

auto throws_in(int step, ActionKind kind) {
  return [step, kind, seen = 0](int, const Action& action) mutable {
    if (action.kind == kind && ++seen == step) throw std::runtime_error("injected");
  };
}

TEST_F(LastWeightsTest, AreThoseOfTheStepBeforeTheOneThatFailed) {
  run(9, [](int rank, CallbackObserver& observer) {
    if (rank == 1) observer.on_begin = throws_in(4, ActionKind::kReduceNorm);
  });
  const auto last = save();
  ASSERT_TRUE(last) << said_;
  EXPECT_EQ(last->step, 3);
  EXPECT_EQ(last->path, folder_ / "ck/step-00000003");
  expect_saved(last->path);
  EXPECT_EQ(said_, "");
}

TEST_F(LastWeightsTest, AreNotThereBeforeTheFirstStepIsFinished) {
  EXPECT_FALSE(save());
  run(9, [](int rank, CallbackObserver& observer) {
    if (rank == 1) observer.on_begin = throws_in(1, ActionKind::kReduceNorm);
  });
  EXPECT_FALSE(save());
  EXPECT_EQ(said_, "");
  EXPECT_EQ(list_directory(folder_.str()), std::set<std::string>());
}

TEST_F(LastWeightsTest, AreNotSavedWhenOnlySomeRanksHaveUpdated) {
  std::atomic<int> updates{0};
  run(9, [&](int rank, CallbackObserver& observer) {
    if (rank == 0) {
      observer.on_end = [&](int, const Action& action) {
        updates += action.kind == ActionKind::kUpdate;
      };
      return;
    }
    observer.on_begin = [&, seen = 0](int, const Action& action) mutable {
      if (action.kind != ActionKind::kUpdate || ++seen < 3) return;
      while (updates < 3) std::this_thread::yield();
      throw std::runtime_error("injected");
    };
  });
  EXPECT_FALSE(save());
  EXPECT_EQ(said_, "the weights of step 3 are not saved: some rank had not finished its update");
  EXPECT_EQ(list_directory(folder_.str()), std::set<std::string>());
}

TEST_F(LastWeightsTest, AreNotSavedWhenTheyAreNotFinite) {
  run(2, {}, [](int rank, Pipeline& pipeline, std::int64_t step) {
    if (rank == 0 && step == 2)
      pipeline.named_parameters().front().tensor.detach().fill_(
          std::numeric_limits<double>::infinity());
  });
  EXPECT_FALSE(save());
  EXPECT_EQ(said_, "the weights of step 2 are not saved: the parameter '" +
                       interrupted_.at(0).pipeline->named_parameters().front().name +
                       "' is not finite");
}

TEST_F(LastWeightsTest, ASaveThatFailsIsAWarning) {
  run(2, {});
  write_file(folder_ / "ck", "a file");
  EXPECT_FALSE(save());
  EXPECT_EQ(said_.rfind("the weights of step 2 could not be saved: ", 0), 0u) << said_;
}

TEST_F(LastWeightsTest, RanksThatCannotBeStartedAgainAreAWarning) {
  run(2, {});
  LocalRanks ranks = ranks_;
  ranks.connect = []() -> std::vector<std::unique_ptr<Transport>> {
    throw Error(ErrorKind::kMemory, {.what = "no more threads"});
  };
  EXPECT_FALSE(save_last_weights(target_, interrupted_, ranks, 1));
  EXPECT_EQ(said_, "the weights of step 2 could not be saved: no more threads");
}

}  // namespace
}  // namespace sluice::test
