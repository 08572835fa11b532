#include "engine/executor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "engine/one_stage.h"
#include "layer/autocast.h"
#include "layer/casted_weights.h"
#include "layer/unfilled.h"
#include "sluice/simulate.h"
#include "support/expect_error.h"
#include "support/user_batches.h"

namespace sluice::test {
namespace {

using Clock = std::chrono::steady_clock;

TEST(ExecutorTest, HoldsAsManyActivationsAsTheSimulationSaysAfterEveryInstruction) {
  for (const ScheduleInfo& info : schedule_table()) {
    const Program program = program_of(info.name, 2, 8);
    const Simulation simulation = simulate(program);
    std::vector<std::vector<int>> live(2);
    HarnessOptions options;
    std::vector<std::vector<Stage*>> stages_of(2);
    // The first step provides the stages. The second step is compared.
    std::vector<int> step(2, 0);
    options.after_step = [&](int rank, std::vector<Stage*> stages) {
      stages_of[rank] = stages;
      ++step[rank];
    };
    options.per_rank = [&](int rank, CallbackObserver& observer) {
      observer.on_end = [&, rank](int, const Action&) {
        if (step[rank] != 1) return;
        int count = 0;
        for (Stage* stage : stages_of[rank]) count += static_cast<int>(stage->num_live());
        live[rank].push_back(count);
      };
    };
    const auto got = train_in_pipeline(user_model(UserModel::kMlp, 6), program,
                                       user_batches(2, 8, {2}), options);
    for (const std::string& error : got.errors) ASSERT_EQ(error, "");
    EXPECT_EQ(live, simulation.per_rank(&RankTimeline::live)) << info.name;
  }
}

TEST(ExecutorTest, KeepsNoOutputAfterItsSend) {
  for (const std::string schedule : {"1F1B", "ZBVZeroBubble"}) {
    const Program program = program_of(schedule, 2, 4);
    HarnessOptions options;
    std::mutex mutex;
    std::map<std::pair<int, int>, c10::weak_intrusive_ptr<c10::StorageImpl>> storages;
    int num_checked = 0;
    options.per_rank = [&](int, CallbackObserver& observer) {
      observer.on_produced = [&](const Action& action, std::vector<at::Tensor>& produced) {
        if (action.kind != ActionKind::kForward) return;
        std::lock_guard lock(mutex);
        storages.emplace(
            std::make_pair(action.stage, action.microbatch),
            c10::weak_intrusive_ptr<c10::StorageImpl>(produced[0].storage().getWeakStorageImpl()));
      };
      // In a residual block the norm of this stage saves the output of the previous stage until
      // this stage's backward. After the backward nothing else may hold it.
      observer.on_end = [&](int, const Action& action) {
        const bool consumed =
            action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight;
        if (!consumed || action.stage == 0) return;
        std::lock_guard lock(mutex);
        const auto found = storages.find({action.stage - 1, action.microbatch});
        ASSERT_NE(found, storages.end());
        EXPECT_TRUE(found->second.expired()) << to_text(action);
        ++num_checked;
      };
    };
    const auto got = train_in_pipeline(user_model(UserModel::kMlp, 6), program,
                                       user_batches(1, 4, {2}), options);
    for (const std::string& error : got.errors) ASSERT_EQ(error, "");
    EXPECT_EQ(num_checked, (program.num_stages() - 1) * 4);
  }
}

// AddOne runs before every cut, and autograd does not save its result. The receiver must therefore
// free it during its forward, and the sender after the SEND.
struct AddOne : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x + 1; }
};

TEST(ExecutorTest, LetsLiveBytesFallRightAfterTheSendWhereNoUserIsLeft) {
  std::vector<LayerSpec> layers{layer_of<AddOne>("a"), layer_of<AddOne>("b")};
  layers[0].reads = {"x"};
  layers[1].writes = {"prediction"};
  const Model model{layers, {"x", "y"}, {"prediction"}, &squared_error};
  const Program program = program_of("GPipe", 2, 6);
  MemoryLedger ledger(2);
  HarnessOptions options;
  options.ledger = &ledger;
  std::vector<std::int64_t> before_send, after_consumed;
  options.per_rank = [&](int rank, CallbackObserver& observer) {
    if (rank != 0) return;
    observer.on_begin = [&](int, const Action& action) {
      if (action.kind == ActionKind::kSendForward) before_send.push_back(ledger.live_bytes(0));
      // By now rank 1 has received all six messages, because its gradients come after its last
      // forward.
      if (action.kind == ActionKind::kOptimizerStep) after_consumed.push_back(ledger.live_bytes(0));
    };
  };
  const auto got = train_in_pipeline(model, program, user_batches(1, 6, {1000}), options);
  for (const std::string& error : got.errors) ASSERT_EQ(error, "");
  ASSERT_EQ(before_send.size(), 6u);
  EXPECT_GE(before_send[0], 1000 * 16 * 4);
  ASSERT_EQ(after_consumed.size(), 1u);
  EXPECT_LT(after_consumed[0], 1000 * 16 * 4);
}

TEST(ExecutorTest, NeedsNoMoreMemoryForMoreMicrobatchesUnder1F1B) {
  std::vector<std::vector<std::int64_t>> peaks;
  for (int microbatches : {4, 64}) {
    MemoryLedger ledger(4);
    HarnessOptions options;
    options.ledger = &ledger;
    const auto got =
        train_in_pipeline(user_model(UserModel::kMlp, 6, 64), program_of("1F1B", 4, microbatches),
                          user_batches(2, microbatches, {32}, 64), options);
    for (const std::string& error : got.errors) ASSERT_EQ(error, "");
    peaks.emplace_back();
    for (int rank = 0; rank < 4; ++rank) peaks.back().push_back(ledger.peak_bytes(rank));
  }
  // Timing decides how many messages are in flight. The warm-up allows at most four.
  const std::int64_t message = 32 * 64 * 4;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_LE(std::abs(peaks[0][rank] - peaks[1][rank]), 4 * message) << "rank " << rank;
  }
}

struct FaultResult {
  std::vector<std::string> errors;
  double seconds = 0;
};

FaultResult inject(const Program& program, int fault_rank, int fault_index) {
  HarnessOptions options;
  Clock::time_point at;
  options.per_rank = [&](int rank, CallbackObserver& observer) {
    if (rank != fault_rank) return;
    observer.on_begin = [&](int index, const Action&) {
      if (index != fault_index) return;
      at = Clock::now();
      throw std::runtime_error("injected fault\nwith a second line");
    };
  };
  const auto got = train_in_pipeline(user_model(UserModel::kMlp, 6), program,
                                     user_batches(1, program.num_microbatches, {2}), options);
  return {got.errors, std::chrono::duration<double>(Clock::now() - at).count()};
}

void expect_named(const Program& program, int rank, int index) {
  const FaultResult result = inject(program, rank, index);
  const std::string place = "injected fault; rank " + std::to_string(rank) + ", instruction " +
                            std::to_string(index) + " '" + to_text(program.ranks[rank][index]) +
                            "'";
  for (std::size_t r = 0; r < result.errors.size(); ++r) {
    // A rank that finished its row before the fault may end without an error.
    if (result.errors[r].empty() && static_cast<int>(r) != rank) continue;
    EXPECT_EQ(result.errors[r].substr(0, place.size()), place) << "rank " << r;
  }
  EXPECT_LT(result.seconds, 30) << "a wait ended by its deadline";
}

TEST(ExecutorTest, StopsAllRanksWithTheNameOfTheOneThatFailed) {
  const Program program = program_of("Interleaved1F1B", 2, 4);
  for (int rank = 0; rank < 2; ++rank) {
    const int size = static_cast<int>(program.ranks[rank].size());
    for (int index = 0; index < size; index += 5) expect_named(program, rank, index);
  }
}

TEST(SlowExecutorTest, StopsAllRanksWhereverOneFails) {
  for (const ScheduleInfo& info : schedule_table()) {
    const Program program = program_of(info.name, 2, 4);
    for (int rank = 0; rank < 2; ++rank) {
      const int size = static_cast<int>(program.ranks[rank].size());
      for (int index = 0; index < size; ++index) expect_named(program, rank, index);
    }
  }
}

TEST(ExecutorTest, LeavesNoTensorBehindAFailure) {
  const Program program = program_of("ZBVZeroBubble", 2, 4);
  for (int index : {3, 9, 17}) {
    MemoryLedger ledger(2);
    {
      HarnessOptions options;
      options.ledger = &ledger;
      options.per_rank = [&](int rank, CallbackObserver& observer) {
        if (rank == 1) {
          observer.on_begin = [=](int at, const Action&) {
            if (at == index) throw std::runtime_error("injected fault");
          };
        }
      };
      TrainedModel got = train_in_pipeline(user_model(UserModel::kMlp, 6), program,
                                           user_batches(1, 4, {2}), options);
      EXPECT_NE(got.errors[0], "");
      // Only the copies of the weights that the harness returns may remain.
      std::int64_t returned = 0;
      for (const auto& [name, weight] : got.weights)
        returned += static_cast<std::int64_t>(weight.nbytes());
      EXPECT_LT(ledger.live_bytes(0) + ledger.live_bytes(1), returned + 64 * 64);
    }
  }
}

TEST(ExecutorTest, SurvivesDelaysAtAnyInstruction) {
  const Program program = program_of("ZBVZeroBubble", 2, 4);
  const Model model = user_model(UserModel::kMlp, 6);
  const auto steps = user_batches(2, 4, {2, 3});
  const TrainedModel expected = train_in_one_loop(model, steps, {});
  for (int slow_rank = 0; slow_rank < 2; ++slow_rank) {
    HarnessOptions options;
    options.per_rank = [&](int rank, CallbackObserver& observer) {
      if (rank != slow_rank) return;
      observer.on_begin = [](int, const Action&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      };
    };
    EXPECT_TRUE(same_bits(train_in_pipeline(model, program, steps, options), expected));
  }
}

TEST(ExecutorTest, FindsWhereAValueStoppedBeingFinite) {
  const Program program = program_of("1F1B", 2, 4);
  for (const bool in_forward : {true, false}) {
    HarnessOptions options;
    options.lr = 0;
    options.find_non_finite = true;
    options.per_rank = [&](int, CallbackObserver& observer) {
      observer.on_produced = [=](const Action& action, std::vector<at::Tensor>& produced) {
        if (action.stage != 1 || action.microbatch != 2) return;
        if ((action.kind == ActionKind::kForward) != in_forward) return;
        produced[0].fill_(std::numeric_limits<double>::quiet_NaN());
      };
    };
    const auto got = train_in_pipeline(user_model(UserModel::kMlp, 6), program,
                                       user_batches(1, 4, {2}), options);
    for (const std::string& error : got.errors) ASSERT_EQ(error, "");
    if (in_forward) {
      ASSERT_TRUE(got.non_finite[1].has_value());
      EXPECT_TRUE(got.non_finite[1]->in_forward);
      EXPECT_EQ(got.non_finite[1]->microbatch, 2);
      EXPECT_EQ(got.non_finite[1]->name, "loss");
      EXPECT_FALSE(got.non_finite[0].has_value());
    } else {
      // The gradient that stage 1 sent makes the weight gradients of stage 0 non-finite.
      EXPECT_FALSE(got.non_finite[1].has_value());
      ASSERT_TRUE(got.non_finite[0].has_value());
      EXPECT_FALSE(got.non_finite[0]->in_forward);
      EXPECT_EQ(got.non_finite[0]->microbatch, 2);
      EXPECT_EQ(got.non_finite[0]->stage, 0);
    }
  }
}

// One compute action passes on NaN. It must be found where it was written, or in the weight
// gradients of the stage that received it.
void expect_found(const Program& program, const Action& poisoned) {
  HarnessOptions options;
  options.lr = 0;
  options.find_non_finite = true;
  options.per_rank = [&](int, CallbackObserver& observer) {
    observer.on_produced = [&](const Action& action, std::vector<at::Tensor>& produced) {
      if (action == poisoned)
        produced[0] = at::full_like(produced[0], std::numeric_limits<double>::quiet_NaN());
    };
  };
  const auto got = train_in_pipeline(user_model(UserModel::kMlp, 6), program,
                                     user_batches(1, program.num_microbatches, {2}), options);
  for (const std::string& error : got.errors) ASSERT_EQ(error, "") << to_text(poisoned);
  const bool in_forward = poisoned.kind == ActionKind::kForward;
  const bool loss = in_forward && poisoned.stage == program.num_stages() - 1;
  const int stage = loss ? poisoned.stage : poisoned.stage + (in_forward ? 1 : -1);
  const auto& found = got.non_finite[program.stage_map.rank_of(stage)];
  ASSERT_TRUE(found.has_value()) << to_text(poisoned);
  EXPECT_EQ(found->in_forward, in_forward) << to_text(poisoned);
  EXPECT_EQ(found->stage, stage) << to_text(poisoned);
  EXPECT_EQ(found->microbatch, poisoned.microbatch) << to_text(poisoned);
}

void expect_found_everywhere(const Program& program, std::size_t every) {
  std::vector<Action> producers;
  auto add = [&](const Action& action) {
    const bool backward =
        action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput;
    if (action.kind == ActionKind::kForward || (backward && action.stage > 0))
      producers.push_back(action);
  };
  for (const auto& row : program.ranks) {
    for (const Action& action : row) {
      if (action.kind == ActionKind::kOverlap) {
        add(action.overlap_forward());
        add(action.overlap_backward());
      } else {
        add(action);
      }
    }
  }
  for (std::size_t i = 0; i < producers.size(); i += every) expect_found(program, producers[i]);
}

TEST(ExecutorTest, FindsANanThatASampleOfActionsHandsOn) {
  expect_found_everywhere(program_of("DualPipeV", 2, 4), 5);
}

TEST(SlowExecutorTest, FindsANanThatAnyActionHandsOn) {
  for (const ScheduleInfo& info : schedule_table())
    expect_found_everywhere(program_of(info.name, 2, 4), 1);
}

TEST(SlowExecutorTest, SurvivesADelayAtEachInstruction) {
  const Program program = program_of("DualPipeV", 2, 4);
  const Model model = user_model(UserModel::kMlp, 6);
  const auto steps = user_batches(1, 4, {2, 3});
  const TrainedModel expected = train_in_one_loop(model, steps, {});
  for (int slow_rank = 0; slow_rank < 2; ++slow_rank) {
    const int size = static_cast<int>(program.ranks[slow_rank].size());
    for (int slow_index = 0; slow_index < size; ++slow_index) {
      HarnessOptions options;
      options.per_rank = [&](int rank, CallbackObserver& observer) {
        if (rank != slow_rank) return;
        observer.on_begin = [=](int index, const Action&) {
          if (index == slow_index) std::this_thread::sleep_for(std::chrono::milliseconds(30));
        };
      };
      EXPECT_TRUE(same_bits(train_in_pipeline(model, program, steps, options), expected))
          << slow_rank << " " << slow_index;
    }
  }
}

TEST(ExecutorTest, NamesATensorThatContradictsItsShapeFunction) {
  HarnessOptions options;
  options.executor.input_metas = [](int, const Values&) {
    return std::vector<TensorMeta>{TensorMeta{{7, 16}, at::kFloat}};
  };
  const auto got = train_in_pipeline(user_model(UserModel::kMlp, 6), program_of("1F1B", 2, 4),
                                     user_batches(1, 4, {2}), options);
  EXPECT_NE(got.errors[1].find("'hidden': expected float32[7, 16], got float32[2, 16]"),
            std::string::npos)
      << got.errors[1];
  EXPECT_EQ(got.errors[0], got.errors[1]);
}

TEST(ExecutorTest, RecordsTheLastActionsWithTheFailedOne) {
  HarnessOptions options;
  options.executor.flight_recorder_size = 4;
  options.per_rank = [&](int rank, CallbackObserver& observer) {
    if (rank != 1) return;
    observer.on_begin = [](int, const Action& action) {
      if (action == Action::backward(1, 2)) throw std::runtime_error("injected fault");
    };
  };
  const auto got = train_in_pipeline(user_model(UserModel::kMlp, 6), program_of("1F1B", 2, 4),
                                     user_batches(1, 4, {2}), options);
  const std::string& record = got.flight_records[1];
  EXPECT_EQ(std::count(record.begin(), record.end(), '\n'), 4);
  const std::string last = record.substr(record.rfind("step", record.size() - 2));
  EXPECT_NE(last.find("1B2"), std::string::npos) << record;
  EXPECT_NE(last.find("FAILED"), std::string::npos) << record;
  EXPECT_NE(record.find("bytes"), std::string::npos);
}

TEST(ExecutorTest, RefusesAFirstStepWithAParameterThatNothingFilledByName) {
  OneStage one(program_of("GPipe", 1, 2));
  const ParameterInfo& last = one.stage.parameters().back();
  set_unfilled(last.tensor);
  Executor executor = one.executor();
  const StepBatch batch = user_batches(1, 2, {2}).front();
  const Error error = error_of([&] { executor.run_step(batch); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
  EXPECT_NE(std::string(error.what()).find("nothing draws or loads '" + last.name + "'"),
            std::string::npos)
      << error.what();
}

TEST(ExecutorTest, CopiesOfWeightsUnderAutocastEndWithTheStep) {
  OneStage one(program_of("GPipe", 1, 2));
  const AutocastScope autocast(at::kBFloat16);
  CastedWeights& copies = one.stage.chunk().casted_weights();
  std::vector<std::int64_t> bytes;
  bool fails = false;
  CallbackObserver observer;
  observer.on_end = [&](int, const Action&) {
    bytes.push_back(copies.bytes());
    if (fails) throw std::runtime_error("injected fault");
  };
  ExecutorOptions options;
  options.observers = {&observer};
  options.scale = GradientScale::kMicrobatches;
  Executor executor = one.executor(options);
  executor.run_step(user_batches(1, 2, {2})[0]);
  EXPECT_GT(bytes.front(), 0);
  EXPECT_EQ(bytes, std::vector<std::int64_t>(bytes.size(), bytes.front()));
  EXPECT_EQ(copies.bytes(), 0);
  fails = true;
  EXPECT_THROW(executor.run_step(user_batches(1, 2, {2})[0]), Error);
  EXPECT_EQ(copies.bytes(), 0);
}

TEST(ExecutorTest, RefusesABatchOfAnotherNumberOfMicrobatchesAndWakesTheOtherRanks) {
  OneStage one(program_of("1F1B", 2, 4));
  Executor executor = one.executor();
  EXPECT_EQ(message_of([&] { executor.run_step(user_batches(1, 3, {2})[0]); }),
            "the program has 4 microbatches, but the batch has 3 with 3 counts; rank 0, step 1");
  ASSERT_TRUE(one.transports[1]->failure().has_value());
  EXPECT_EQ(one.transports[1]->failure()->kind, ErrorKind::kUsage);
}

TEST(ExecutorTest, RefusesAnotherRanksStageOrTransport) {
  OneStage one(program_of("1F1B", 2, 4));
  const auto make = [&](int rank, std::vector<Stage*> stages, Transport& transport) {
    return message_of([&] {
      Executor(one.program, rank, std::move(stages), transport, one.ops, &squared_error, {});
    });
  };
  EXPECT_NE(make(0, {}, *one.transports[0]).find("stage 0 is missing"), std::string::npos);
  EXPECT_NE(make(1, {&one.stage}, *one.transports[1]).find("stage 0 belongs to another rank"),
            std::string::npos);
  EXPECT_NE(make(0, {&one.stage}, *one.transports[1]).find("the transport of rank 1 of 2"),
            std::string::npos);
  const auto three = make_local_transports(3);
  EXPECT_NE(make(0, {&one.stage}, *three[0]).find("the transport of rank 0 of 3"),
            std::string::npos);
}

TEST(ExecutorTest, LossesMayBeAskedForWhileTheStepRuns) {
  OneStage one(program_of("GPipe", 1, 4));
  const Executor* running = nullptr;
  std::vector<std::size_t> sizes;
  CallbackObserver observer;
  observer.on_end = [&](int, const Action&) { sizes.push_back(running->losses().size()); };
  ExecutorOptions options;
  options.observers = {&observer};
  Executor executor = one.executor(options);
  running = &executor;
  executor.run_step(user_batches(1, 4, {2})[0]);
  ASSERT_GE(sizes.size(), 4u);
  EXPECT_EQ(std::vector<std::size_t>(sizes.begin(), sizes.begin() + 4),
            (std::vector<std::size_t>{1, 2, 3, 4}));
}

TEST(ExecutorTest, RefusesALossThatCountsOtherwiseThanTheBatch) {
  const auto loss = [](const Values& outputs, const Values& batch) {
    return LossValue{squared_error(outputs, batch).loss, 7};
  };
  OneStage tokens(program_of("GPipe", 1, 2));
  Executor refused = tokens.executor({}, loss);
  const std::string message = message_of([&] { refused.run_step(user_batches(1, 2, {2})[0]); });
  EXPECT_NE(message.find("counted 7, but Model::count (StepBatch::counts) gave 32"),
            std::string::npos)
      << message;
  ExecutorOptions options;
  options.scale = GradientScale::kMicrobatches;  // this scale needs no counts in advance
  OneStage means(program_of("GPipe", 1, 2));
  Executor taken = means.executor(options, loss);
  EXPECT_NO_THROW(taken.run_step(user_batches(1, 2, {2})[0]));
}

TEST(ExecutorTest, NamesTheHalfOfAnOverlappedPairThatFailed) {
  const Program program = program_of("DualPipeV", 2, 6);
  Action pair;
  for (const Action& action : program.ranks[0]) {
    if (action.kind == ActionKind::kOverlap) pair = action;
  }
  ASSERT_EQ(pair.kind, ActionKind::kOverlap);
  for (const Action& half : {pair.overlap_forward(), pair.overlap_backward()}) {
    HarnessOptions options;
    options.per_rank = [&](int, CallbackObserver& observer) {
      observer.on_produced = [&](const Action& action, std::vector<at::Tensor>&) {
        if (action == half) throw std::runtime_error("injected fault");
      };
    };
    const auto got = train_in_pipeline(user_model(UserModel::kMlp, 6), program,
                                       user_batches(1, 6, {2}), options);
    const std::string place = "'" + to_text(pair) + "' (stage " + std::to_string(half.stage) +
                              ", microbatch " + std::to_string(half.microbatch) + ")";
    EXPECT_NE(got.errors[0].find(place), std::string::npos) << got.errors[0];
  }
}

TEST(ExecutorTest, RunsTheForwardsAloneAndKeepsNothingOfThem) {
  LowerOptions lower_options;
  lower_options.forward_only = true;
  const Model model = user_model(UserModel::kMlp, 6);
  const auto steps = user_batches(2, 4, {2, 3});
  HarnessOptions options;
  options.lr = 0;
  const TrainedModel expected = train_in_one_loop(model, steps, options);
  for (const char* schedule : {"1F1B", "ZBVZeroBubble", "DualPipeV"}) {
    const Program program = lower(make_schedule(schedule, {2, 0, 4}), lower_options);
    require_verified(verify(program), schedule);
    MemoryLedger ledger(2);
    options.ledger = &ledger;
    std::vector<std::vector<std::int64_t>> live(2);
    options.after_step = [&](int rank, std::vector<Stage*> stages) {
      live[rank].push_back(ledger.live_bytes(rank));
      for (Stage* stage : stages) EXPECT_EQ(stage->num_live(), 0u);
    };
    const TrainedModel got = train_in_pipeline(model, program, steps, options);
    for (const std::string& error : got.errors) ASSERT_EQ(error, "") << schedule;
    EXPECT_TRUE(same_bits(got, expected)) << schedule;
  }
}

TEST(ExecutorTest, ScalesGradientsAsAskedFor) {
  // With one weight and loss = sum((w x - y)^2), the gradient of each microbatch is known. The
  // counts differ.
  const auto steps = user_batches(1, 2, {1, 3});
  const Model model{{[] {
                      LayerSpec layer = linear_layer("only", 16, 16);
                      layer.reads = {"x"};
                      layer.writes = {"prediction"};
                      return layer;
                    }()},
                    {"x", "y"},
                    {"prediction"},
                    &squared_error};
  auto updates = [&](GradientScale scale) {
    HarnessOptions options;
    options.executor.scale = scale;
    HarnessOptions still = options;
    still.lr = 0;
    const Program program = program_of("GPipe", 1, 2);
    const auto moved = train_in_pipeline(model, program, steps, options).weights.at("only.weight");
    return moved - train_in_pipeline(model, program, steps, still).weights.at("only.weight");
  };
  const at::Tensor none = updates(GradientScale::kSumOfMeans);
  EXPECT_TRUE(at::allclose(updates(GradientScale::kMicrobatches) * 2, none, 1e-4, 1e-6));
  EXPECT_TRUE(at::allclose(updates({GradientScale::kDivisor, 8}) * 8, none, 1e-4, 1e-6));
  EXPECT_FALSE(at::allclose(updates(GradientScale::kTokens) * 2, none, 1e-3, 1e-6));
}

}  // namespace
}  // namespace sluice::test
