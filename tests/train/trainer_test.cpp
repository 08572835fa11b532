#include "sluice/trainer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <random>
#include <set>

#include "base/log.h"
#include "io/hf_shards.h"
#include "optim/gradient_norm.h"
#include "sluice/parts/saver.h"
#include "support/callback_observer.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"
#include "support/user_models.h"
#include "train/evaluator.h"
#include "train/pipeline_control.h"
#include "train/trainer_support.h"

namespace sluice::test::trainer_test {
namespace {

TEST(TrainerTest, LossesNormsAndWeightsAreTheSameBitsForEveryLayoutAndSchedule) {
  const TrainingResult alone = run_training(mlp_run("GPipe", 1));
  EXPECT_LT(alone.reports.back().loss, alone.reports.front().loss);
  for (const char* schedule : {"GPipe", "1F1B"}) {
    for (int ranks : {1, 2, 4}) {
      EXPECT_TRUE(same_bits(alone, run_training(mlp_run(schedule, ranks))))
          << schedule << " " << ranks;
    }
  }
  for (const char* schedule : {"Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble"}) {
    EXPECT_TRUE(same_bits(alone, run_training(mlp_run(schedule, 2)))) << schedule;
  }
}

TrainingRun run_with_buffers(const std::string& schedule, int num_ranks) {
  TrainingRun run = mlp_run(schedule, num_ranks);
  run.model = [] {
    Model model = mlp(false);
    model.layers[3] = layer_of<torch::nn::BatchNorm1dImpl>("norm", kTrainerWidth);
    return model;
  };
  return run;
}

TEST(TrainerTest, AnEvaluationLeavesNoTraceAndHasTheSameBitsForEveryLayout) {
  const TrainingResult plain = run_training(run_with_buffers("1F1B", 2));
  std::vector<double> alone;
  for (const int ranks : {1, 2, 4}) {
    TrainingRun run = run_with_buffers("1F1B", ranks);
    std::vector<double> sums;
    const auto evaluate = [&](RankTrainer& trainer, Transport& transport) {
      for (const int num_microbatches : {kMicrobatches + 2, 1}) {
        const auto losses = trainer.evaluate(random_steps(1, num_microbatches).front());
        ASSERT_EQ(losses.size(), static_cast<std::size_t>(num_microbatches));
        if (transport.rank() != 0) continue;
        for (const MicrobatchLoss& loss : losses) sums.push_back(loss.sum);
      }
    };
    run.before_steps = run.after_steps = evaluate;
    EXPECT_TRUE(same_bits(plain, run_training(run))) << ranks;
    EXPECT_NE(sums.front(), sums.at(sums.size() / 2)) << "before the steps and after them";
    if (ranks == 1) alone = sums;
    EXPECT_EQ(sums, alone) << ranks;
  }
}

TEST(TrainerTest, TheFlightRecordIsThatOfTheStepOrEvaluationThatRanLast) {
  TrainingRun run = mlp_run("1F1B", 2);
  run.after_steps = [](RankTrainer& trainer, Transport& /*transport*/) {
    EXPECT_NE(PipelineControl(trainer.pipeline()).flight_record().find("UPDATE"),
              std::string::npos);
    trainer.evaluate(random_steps(1, 2).front());
    const std::string record = PipelineControl(trainer.pipeline()).flight_record();
    EXPECT_NE(record.find("F1"), std::string::npos) << record;
    EXPECT_EQ(record.find("UPDATE"), std::string::npos) << record;
    trainer.step(random_steps(5).back(), 0.1);
    EXPECT_NE(PipelineControl(trainer.pipeline()).flight_record().find("UPDATE"),
              std::string::npos);
  };
  run_training(run);
}

TEST(TrainerTest, AnEvaluatorKeepsTheProgramsOfTheLastFewNumbersOfMicrobatches) {
  const Model model = mlp(false);
  const Program program = training_program("GPipe", 1, kMicrobatches);
  const auto transports = make_local_transports(1);
  const Plan plan = plan_of(model, even_partition(model, program.stage_map), program);
  const RunOptions options{.seed = 3};
  RankModel rank(model, plan, transports.front()->world(), at::kCPU, options);
  rank.initialize(model, options);
  const ModelEnd end(model);
  Evaluator evaluator(nullptr, plan, rank, *transports.front(), end, options, {});
  const auto first_loss = [&](int num_microbatches) {
    evaluator.run(random_steps(1, num_microbatches).front());
    EXPECT_EQ(evaluator.losses().size(), static_cast<std::size_t>(num_microbatches));
    return evaluator.losses().front().sum;
  };
  const double loss = first_loss(1);
  for (int num_microbatches = 2; num_microbatches <= 6; ++num_microbatches)
    EXPECT_EQ(first_loss(num_microbatches), loss);
  EXPECT_EQ(evaluator.num_programs(), Evaluator::kMostPrograms);
  EXPECT_EQ(first_loss(1), loss);  // its program was evicted
  EXPECT_EQ(first_loss(6), loss);
  EXPECT_EQ(evaluator.num_programs(), Evaluator::kMostPrograms);
}

TEST(TrainerTest, BuffersAreSavedAndLoadedByTheirFullNames) {
  const TempDirectory folder;
  std::vector<double> saved_losses;
  TrainingRun run = run_with_buffers("1F1B", 2);
  run.after_steps = [&](RankTrainer& trainer, Transport& transport) {
    SaveTarget target;
    target.path = folder / "saved";
    target.head.run = "0123456789abcdef";
    EXPECT_FALSE(
        save_checkpoint(target, PipelineControl(trainer.pipeline()).state(), transport.world())
            .error);
    const auto losses = trainer.evaluate(run.steps.front());
    if (transport.rank() == 0) saved_losses.push_back(losses.front().sum);
  };
  run_training(run);
  const HfDirectory saved(folder / "saved");
  for (const char* name : {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"})
    EXPECT_TRUE(saved.shards().find(name)) << name;
  const TensorSource tracked = saved.shards().locate("norm.num_batches_tracked");
  EXPECT_EQ(tracked.file->read(tracked.entry->name).item<std::int64_t>(), 4 * kMicrobatches);

  TrainingRun again = run_with_buffers("ZBVZeroBubble", 2);
  const ModelSpec none;
  again.weights = &saved;
  again.spec = &none;
  again.before_steps = [&](RankTrainer& trainer, Transport& transport) {
    const auto losses = trainer.evaluate(run.steps.front());
    if (transport.rank() == 0) saved_losses.push_back(losses.front().sum);
  };
  run_training(again);
  ASSERT_EQ(saved_losses.size(), 2u);
  EXPECT_EQ(saved_losses[0], saved_losses[1]);
}

TEST(TrainerTest, EveryRankKnowsWhichStagesDidNotSplitTheirBackward) {
  TrainingRun run = mlp_run("ZBVZeroBubble", 2);
  // With two layers per stage, the third stage has only custom functions.
  run.model = [] {
    Model model = mlp(false);
    model.layers[4] = layer_of<CustomScale>("scale4", kTrainerWidth);
    model.layers[5] = layer_of<CustomScale>("scale5", kTrainerWidth);
    return model;
  };
  std::atomic<int> num_right{0};
  run.after_steps = [&](RankTrainer& trainer, Transport&) {
    num_right += PipelineControl(trainer.pipeline()).gather_unsplit_stages() == std::vector<int>{2};
  };
  run_training(run);
  EXPECT_EQ(num_right, 2);
}

TEST(TrainerTest, KnowsTheStepOfItsWeightsAlsoAfterAFailure) {
  TrainingRun run = mlp_run("1F1B", 2);
  std::vector<CallbackObserver> observers(2);
  std::vector<std::unique_ptr<RankTrainer>> trainers(2);
  const auto transports = make_local_transports(2);
  const Model model = run.model();
  const Plan plan = plan_of(model, run.partition, run.program);
  EXPECT_THROW(run_ranks(transports, 1, nullptr,
                         [&](Transport& transport) {
                           CallbackObserver& observer = observers[transport.rank()];
                           RankOptions options;
                           options.observers = {&observer};
                           observer.on_begin = [seen = 0](int, const Action& action) mutable {
                             if (action == Action::backward(1, 3) && ++seen == 3)
                               throw std::runtime_error("injected");
                           };
                           auto& trainer = trainers[transport.rank()];
                           trainer = std::make_unique<RankTrainer>(model, plan, transport, options);
                           EXPECT_EQ(trainer->weights_step(), 0);
                           for (const StepBatch& step : run.steps) {
                             trainer->step(step, 0.01);
                             EXPECT_EQ(trainer->weights_step(), step.step);
                           }
                         }),
               Error);
  for (const auto& trainer : trainers) EXPECT_EQ(trainer->weights_step(), 2);
}

TEST(TrainerTest, AnUpdateThatWasSkippedLeavesTheWeightsOfTheStepBefore) {
  TrainingRun run = mlp_run("1F1B", 2);
  run.lr = 1e30;
  run.options.optimizer.kind = OptimizerKind::kSgd;
  std::vector<std::unique_ptr<RankTrainer>> trainers(2);
  const auto transports = make_local_transports(2);
  const Model model = run.model();
  const Plan plan = plan_of(model, run.partition, run.program);
  const Error error = test::error_of([&] {
    run_ranks(transports, 1, nullptr, [&](Transport& transport) {
      auto& trainer = trainers[transport.rank()];
      trainer = std::make_unique<RankTrainer>(model, plan, transport, run.options);
      for (const StepBatch& step : run.steps) trainer->step(step, run.lr);
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFinite) << error.what();
  for (const auto& trainer : trainers) EXPECT_EQ(trainer->weights_step(), 1) << error.what();
}

TEST(TrainerTest, EveryStageIsALineOfTheLogAtDebug) {
  std::vector<std::string> said;
  set_log_sink([&](LogLevel, std::string_view message) { said.emplace_back(message); });
  set_log_level(LogLevel::kDebug);
  run_training(mlp_run("1F1B", 2, false, 1));
  set_log_level(LogLevel::kInfo);
  set_log_sink({});
  std::sort(said.begin(), said.end());
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0].rfind("rank 0: made stage 0, first to ", 0), 0u) << said[0];
  EXPECT_EQ(said[1].rfind("rank 1: made stage 1, ", 0), 0u) << said[1];
  for (const std::string& line : said) {
    EXPECT_NE(line.find(" parameters, "), std::string::npos) << line;
    EXPECT_TRUE(line.ends_with("B")) << line;
  }
}

TEST(TrainerTest, AStepWithoutACountedLabelIsRefused) {
  TrainingRun run = mlp_run("1F1B", 2);
  run.steps[2].counts.assign(kMicrobatches, 0);
  const Error error = test::error_of([&] { run_training(run); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(std::string(error.what()).rfind("no label of the step's batch is counted; step 3; ", 0),
            0u)
      << error.what();
}

TEST(TrainerTest, EveryRankHasTheSameReport) {
  const TrainingResult result = run_training(mlp_run("1F1B", 4));
  for (const auto& reports : result.of_rank) {
    for (std::size_t i = 0; i < reports.size(); ++i) {
      EXPECT_EQ(reports[i].loss, result.reports[i].loss);
      EXPECT_EQ(reports[i].grad_norm, result.reports[i].grad_norm);
      EXPECT_EQ(reports[i].count, 2 * kTrainerWidth * kMicrobatches);
      EXPECT_EQ(reports[i].parameter_norms, result.reports[i].parameter_norms);
    }
  }
}

TEST(TrainerTest, TheNormIsThatOfAllParameters) {
  const TrainingResult result = run_training(mlp_run("1F1B", 2, false, 1));
  std::vector<double> norms;
  std::set<std::string> names;
  for (const auto& [name, norm] : result.reports[0].parameter_norms) {
    norms.push_back(norm);
    names.insert(name);
  }
  EXPECT_EQ(names.size(), result.weights.size());
  double squares = 0;
  for (double norm : norms) squares += norm * norm;
  EXPECT_NEAR(result.reports[0].grad_norm, std::sqrt(squares), 1e-12);
}

TEST(TrainerTest, RandomPartitionsHaveTheBitsOfOneStage) {
  constexpr int kLayers = 8;
  const auto model = [](unsigned frozen) {
    Model some = mlp(false);
    for (std::size_t i = 0; i < some.layers.size(); ++i) {
      if ((frozen >> i & 1U) == 0) continue;
      some.layers[i].make = [make = some.layers[i].make] {
        auto module = make();
        for (at::Tensor& parameter : module->parameters()) parameter.set_requires_grad(false);
        return module;
      };
    }
    return some;
  };
  std::mt19937 random(5);
  for (const unsigned frozen : {0U, 0b1U, 0b111U, 0b00111000U, 0b11000000U, 0xffU}) {
    std::optional<TrainingResult> alone;
    for (const auto& [schedule, ranks] :
         {std::pair("GPipe", 1), std::pair("1F1B", 3), std::pair("GPipe", 8),
          std::pair("ZBVZeroBubble", 2), std::pair("InterleavedZeroBubble", 2)}) {
      TrainingRun run = mlp_run(schedule, ranks, false, 3);
      run.model = [&] { return model(frozen); };
      std::vector<int> cuts;
      for (int layer = 1; layer < kLayers; ++layer) cuts.push_back(layer);
      std::shuffle(cuts.begin(), cuts.end(), random);
      cuts.resize(static_cast<std::size_t>(run.program.num_stages()) - 1);
      cuts.insert(cuts.end(), {0, kLayers});
      std::sort(cuts.begin(), cuts.end());
      for (StageContent& stage : run.partition.stages) {
        const auto s = static_cast<std::size_t>(stage.stage);
        stage.layers.clear();
        for (int layer = cuts[s]; layer < cuts[s + 1]; ++layer) stage.layers.push_back(layer);
      }
      const TrainingResult result = run_training(run);
      if (!alone) alone = result;
      EXPECT_TRUE(same_bits(*alone, result)) << schedule << ", frozen " << frozen;
      if (frozen == 0xffU) {
        EXPECT_EQ(result.reports[0].grad_norm, 0.0);
        EXPECT_TRUE(result.reports[0].parameter_norms.empty());
      }
    }
  }
}

TEST(TrainerTest, DrawsATieAcrossRanksByModuleAsOnOneRank) {
  const auto model = [] {
    Model drawn = mlp(true);
    drawn.initialization.module = [](const std::string&, torch::nn::Module& module) {
      for (at::Tensor& parameter : module.parameters(/*recurse=*/false))
        parameter.uniform_(-0.3, 0.3);
    };
    return drawn;
  };
  TrainingRun one = mlp_run("GPipe", 1), two = mlp_run("GPipe", 2);
  two.program = training_program("GPipe", 2, kMicrobatches, {{"first.weight", {0, 1}}});
  one.model = two.model = model;
  EXPECT_TRUE(same_bits(run_training(one), run_training(two)));
}

TEST(TrainerTest, NamesMayHoldSpaces) {
  const auto model = [] {
    Model spaced = mlp(true);
    for (LayerSpec& layer : spaced.layers) layer.name = "my " + layer.name;
    spaced.layers.back().ties = {{"weight", "my first.weight"}};
    return spaced;
  };
  TrainingRun alone = mlp_run("GPipe", 1), two = mlp_run("GPipe", 2);
  two.program = training_program("GPipe", 2, kMicrobatches, {{"my first.weight", {0, 1}}});
  alone.model = two.model = model;
  const TrainingResult expected = run_training(alone);
  EXPECT_EQ(expected.reports[0].parameter_norms[0].first, "my first.weight");
  EXPECT_TRUE(same_bits(expected, run_training(two)));
}

TEST(TrainerTest, AModuleThatCannotBeMadeStopsEveryRankAtOnce) {
  for (const int rank : {0, 3}) {
    TrainingRun run = mlp_run("1F1B", 4);
    run.model = [rank] {
      Model broken = mlp(false);
      broken.layers[2 * rank].make = []() -> std::shared_ptr<torch::nn::Module> {
        throw std::runtime_error("no module");
      };
      return broken;
    };
    const auto start = std::chrono::steady_clock::now();
    try {
      run_training(run);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "no module; rank " + std::to_string(rank));
    }
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 30)
        << "a wait ended by its deadline";
  }
}

TEST(TrainerTest, AnUpdateThatFailsLeavesNoGradBehind) {
  TrainingRun run = mlp_run("GPipe", 1, false, 1);
  std::vector<at::Tensor> parameters;
  run.before_steps = [&](RankTrainer& trainer, Transport&) {
    for (const ParameterInfo& info : trainer.parameters()) parameters.push_back(info.tensor);
    for (const auto& [name, tensor] : trainer.optimizer().state()) {
      if (name == "exp_avg/last.weight") tensor.set_data(at::zeros_like(tensor, at::kInt));
    }
  };
  EXPECT_THROW(run_training(run), Error);
  ASSERT_FALSE(parameters.empty());
  for (const at::Tensor& parameter : parameters) EXPECT_FALSE(parameter.grad().defined());
}

TEST(TrainerTest, TiedParametersTrainWithTheSameBitsOnOneStageOneRankOrSeveral) {
  const TrainingResult alone = run_training(mlp_run("GPipe", 1, true));
  for (const auto& [name, norm] : alone.reports[0].parameter_norms) EXPECT_NE(name, "last.weight");
  EXPECT_FALSE(same_bits(alone, run_training(mlp_run("GPipe", 1, false))));
  EXPECT_TRUE(same_bits(alone, run_training(mlp_run("GPipe", 2, true))));
  EXPECT_TRUE(same_bits(alone, run_training(mlp_run("1F1B", 4, true))));
  // The first and last stage are both on rank 0, so tied weights share storage across stages.
  EXPECT_TRUE(same_bits(alone, run_training(mlp_run("ZBVZeroBubble", 2, true))));
}

TEST(TrainerTest, BothUsesOfATiedParameterStayEqual) {
  TrainingRun run = mlp_run("1F1B", 2, true);
  std::map<std::string, at::Tensor> uses;
  std::mutex mutex;
  run.after_steps = [&](RankTrainer& trainer, Transport&) {
    const std::lock_guard lock(mutex);
    for (const ParameterInfo& info : trainer.parameters())
      uses[info.name] = info.tensor.detach().clone();
  };
  run_training(run);
  EXPECT_TRUE(at::equal(uses.at("first.weight"), uses.at("last.weight")));
}

TEST(TrainerTest, ATieAcrossRanksWithoutATieGroupInTheProgramIsRefused) {
  TrainingRun run = mlp_run("1F1B", 2, true);
  run.program = training_program("1F1B", 2, kMicrobatches);
  try {
    run_training(run);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_NE(std::string(error.what()).find("'first.weight'"), std::string::npos);
  }
}

TEST(TrainerTest, ATieOfWhichSomeUsesAreFrozenIsRefused) {
  for (const std::size_t layer : {0, 7}) {
    TrainingRun run = mlp_run("1F1B", 2, true);
    run.model = [layer] {
      Model model = mlp(true);
      model.layers[layer].make = [make = model.layers[layer].make] {
        auto module = make();
        for (at::Tensor& parameter : module->parameters()) parameter.set_requires_grad(false);
        return module;
      };
      return model;
    };
    try {
      run_training(run);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what())
                    .find(layer ? "'last.weight' is frozen, but 'first.weight'"
                                : "'first.weight' is frozen, but 'last."),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(TrainerTest, ClippingScalesTheUpdateToTheLargestNorm) {
  TrainingRun run = mlp_run("1F1B", 2, false, 1);
  run.options.optimizer.kind = OptimizerKind::kSgd;
  run.options.optimizer.weight_decay = 0.0;
  run.lr = 1.0;
  std::map<std::string, at::Tensor> start;
  std::mutex mutex;
  run.before_steps = [&](RankTrainer& trainer, Transport&) {
    const std::lock_guard lock(mutex);
    for (const ParameterInfo& info : trainer.parameters())
      start[info.name] = info.tensor.detach().clone();
  };
  auto update_norm = [&](double max_norm) {
    run.options.optimizer.max_norm = max_norm;
    const TrainingResult result = run_training(run);
    std::vector<double> norms;
    for (const auto& [name, value] : result.weights)
      norms.push_back(tensor_norm(value - start.at(name)));
    return std::pair(combine_norms(norms), result.reports[0].grad_norm);
  };
  const auto [free, norm] = update_norm(0.0);
  EXPECT_NEAR(free, norm, 1e-5 * norm);
  const auto [clipped, same_norm] = update_norm(0.5 * norm);
  EXPECT_NEAR(clipped, 0.5 * norm, 1e-5 * norm);
  EXPECT_EQ(same_norm, norm);
}

TEST(TrainerTest, GradientsAreScaledAsItIsTold) {
  auto norm = [](GradientScale scale) {
    TrainingRun run = mlp_run("1F1B", 2, false, 1);
    run.options = {};
    run.options.seed = 3;
    run.options.scale = scale;
    return run_training(run).reports[0].grad_norm;
  };
  // All microbatches count equally many tokens, so the mean of their means is the overall mean.
  const double mean = norm(GradientScale::kTokens);
  EXPECT_NEAR(norm(GradientScale::kMicrobatches), mean, 1e-6 * mean);
  EXPECT_NEAR(norm(GradientScale::kSumOfMeans), kMicrobatches * mean, 1e-6 * kMicrobatches * mean);
  EXPECT_NEAR(norm({GradientScale::kDivisor, 2.0}), kMicrobatches * mean / 2.0,
              1e-6 * kMicrobatches * mean);
}

TEST(TrainerTest, TheStrongestRequestOfAllRanksReachesAllInTheSameStep) {
  TrainingRun run = mlp_run("1F1B", 4);
  run.per_rank = [](int rank, RankOptions& options) {
    options.requested = [rank, asked = 0]() mutable {
      ++asked;
      if (asked == 2 && rank == 1) return StepRequest::kSave;
      if (asked == 3 && rank == 2) return StepRequest::kStop;
      return asked == 3 && rank == 0 ? StepRequest::kSave : StepRequest::kNone;
    };
  };
  const TrainingResult result = run_training(run);
  for (const auto& reports : result.of_rank) {
    std::vector<StepRequest> requests;
    for (const StepResult& report : reports) requests.push_back(report.request);
    EXPECT_EQ(requests, (std::vector<StepRequest>{StepRequest::kNone, StepRequest::kSave,
                                                  StepRequest::kStop, StepRequest::kNone}));
  }
}

TEST(TrainerTest, AProgramThatGathersParametersTrainsToTheSameBits) {
  TrainingRun run = mlp_run("1F1B", 2);
  const TrainingResult expected = run_training(run);
  LowerOptions options;
  options.shard_parameters = options.reduce_gradients = true;
  options.loss = options.norm = options.optimizer_step = true;
  run.program = lower(make_schedule("1F1B", {2, 0, run.program.num_microbatches}), options);
  require_verified(verify(run.program), "1F1B");
  EXPECT_TRUE(same_bits(run_training(run), expected));
}

Program with_whole_updates(Program program) {
  for (std::vector<Action>& row : program.ranks) {
    std::erase_if(row, [](const Action& action) {
      return action.kind == ActionKind::kPartialNorm || action.kind == ActionKind::kUpdate;
    });
    row.push_back(Action::make(ActionKind::kOptimizerStep));
  }
  require_verified(verify(program), "with whole updates");
  return program;
}

TEST(TrainerTest, NormsAndUpdatesOfStagesGiveTheBitsOfThoseOfWholeRanks) {
  for (const char* schedule : {"1F1B", "Interleaved1F1B", "ZBVZeroBubble"}) {
    for (const bool tied : {false, true}) {
      TrainingRun run = mlp_run(schedule, 2, tied);
      const TrainingResult by_stage = run_training(run);
      run.program = with_whole_updates(std::move(run.program));
      const TrainingResult whole = run_training(run);
      EXPECT_TRUE(same_bits(by_stage, whole)) << schedule << " " << tied;
      ASSERT_EQ(by_stage.reports.size(), whole.reports.size());
      for (std::size_t step = 0; step < whole.reports.size(); ++step)
        EXPECT_EQ(by_stage.reports[step].parameter_norms, whole.reports[step].parameter_norms);
    }
  }
}

TEST(TrainerTest, AForwardOnlyProgramTellsEveryRankTheLossAndChangesNothing) {
  TrainingRun run = mlp_run("1F1B", 2, /*tied=*/false, /*num_steps=*/2);
  run.lr = 0;
  const TrainingResult trained = run_training(run);
  LowerOptions options;
  options.forward_only = options.loss = true;
  run.program = lower(make_schedule("1F1B", {2, 0, run.program.num_microbatches}), options);
  require_verified(verify(run.program), "1F1B");
  for (const auto& row : run.program.ranks) EXPECT_EQ(row.back().kind, ActionKind::kReduceLoss);
  const TrainingResult got = run_training(run);
  EXPECT_EQ(got.losses(), trained.losses());
  ASSERT_EQ(got.of_rank.size(), 2U);
  for (const auto& reports : got.of_rank) {
    ASSERT_EQ(reports.size(), 2U);
    for (std::size_t step = 0; step < reports.size(); ++step) {
      EXPECT_EQ(reports[step].loss, trained.reports[step].loss);
      EXPECT_EQ(reports[step].count, trained.reports[step].count);
      EXPECT_GT(reports[step].count, 0);
    }
  }
  for (const auto& [name, weight] : trained.weights) {
    EXPECT_TRUE(got.weights.at(name).equal(weight)) << name;
  }
}

TEST(TrainerTest, RefusesAnUpdateWithoutTheLossOfTheStep) {
  TrainingRun run = mlp_run("GPipe", 1, /*tied=*/false, /*num_steps=*/1);
  LowerOptions options;
  options.norm = options.optimizer_step = true;
  run.program = lower(make_schedule("GPipe", {1, 0, run.program.num_microbatches}), options);
  const Error error = error_of([&] { run_training(run); });
  EXPECT_EQ(error.kind(), ErrorKind::kInternal);
  EXPECT_NE(std::string(error.what()).find("OPTIMIZER_STEP without REDUCE_LOSS"),
            std::string::npos);
}

TEST(TrainerTest, RefusesAxesOverWhichItDoesNotAddGradients) {
  TrainingRun run = mlp_run("1F1B", 2, /*tied=*/false, /*num_steps=*/1);
  run.program.mesh = Mesh({.pp = 2, .cp = 2});
  const Error error = error_of([&] { run_training(run); });
  EXPECT_EQ(error.kind(), ErrorKind::kInternal);
  EXPECT_EQ(error.fact(),
            "the mesh has 4 ranks, but only 1 pipeline of size 2: gradients are not added over "
            "other axes");
}

// ---- not finite ----

std::string error_with_nan_at(const std::string& schedule, int num_ranks,
                              const std::vector<Action>& places) {
  TrainingRun run = mlp_run(schedule, num_ranks, false, 3);
  std::atomic<int> in_step{0};
  std::vector<CallbackObserver> observers(static_cast<std::size_t>(num_ranks));
  run.per_rank = [&](int rank, RankOptions& options) {
    CallbackObserver& observer = observers[rank];
    options.observers = {&observer};
    observer.on_begin = [rank, &in_step](int index, const Action&) {
      if (rank == 0 && index == 0) ++in_step;
    };
    observer.on_produced = [&, places](const Action& action, std::vector<at::Tensor>& produced) {
      // Rank 0 begins every step first, because the other ranks depend on its results.
      if (in_step < 2) return;
      const at::NoGradGuard no_grad;
      for (const Action& place : places) {
        if (action == place) produced.at(0).mul_(std::numeric_limits<float>::quiet_NaN());
      }
    };
  };
  try {
    run_training(run);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFinite);
    return error.what();
  }
  return "no error";
}

TEST(TrainerTest, AValueThatIsNotFiniteIsNamedWithStepStageAndMicrobatch) {
  const std::string error = error_with_nan_at("1F1B", 4, {Action::forward(1, 2)});
  EXPECT_NE(error.find("'hidden' is not finite; step 2, stage 1 (rank 1), microbatch 2"),
            std::string::npos)
      << error;
}

TEST(TrainerTest, ReportsFirstMicrobatchThenFirstStageThatIsNotFinite) {
  const std::string error = error_with_nan_at(
      "GPipe", 4, {Action::forward(0, 3), Action::forward(2, 1), Action::backward(1, 0)});
  EXPECT_NE(error.find("stage 2 (rank 2), microbatch 1"), std::string::npos) << error;
}

TEST(TrainerTest, AGradientThatIsNotFiniteIsNamedWhereItFirstAppears) {
  // Stage 2 sends a NaN gradient, which first affects parameters of stage 1.
  const std::string error = error_with_nan_at("GPipe", 4, {Action::backward(2, 1)});
  EXPECT_NE(error.find("the gradient of 'block"), std::string::npos) << error;
  EXPECT_NE(error.find("step 2, stage 1 (rank 1), microbatch 1"), std::string::npos) << error;
}

TEST(TrainerTest, ALossThatIsNotFiniteMakesNoUpdate) {
  TrainingRun run = mlp_run("1F1B", 2, false, 1);
  Values broken = run.steps[0].microbatches.at(1);
  broken.set("y", at::full({2, kTrainerWidth}, std::numeric_limits<float>::infinity()));
  MicrobatchList microbatches;
  microbatches.push_back(run.steps[0].microbatches.at(0));
  microbatches.push_back(std::move(broken));
  run.steps[0].microbatches = std::move(microbatches);
  std::map<std::string, at::Tensor> start, after;
  std::mutex mutex;
  run.before_steps = [&](RankTrainer& trainer, Transport&) {
    const std::lock_guard lock(mutex);
    for (const ParameterInfo& info : trainer.parameters()) {
      start[info.name] = info.tensor.detach().clone();
      after[info.name] = info.tensor.detach();
    }
  };
  EXPECT_THROW(run_training(run), Error);
  for (const auto& [name, value] : start) EXPECT_TRUE(at::equal(value, after.at(name))) << name;
}

// ---- memory ----

TEST(TrainerTest, ARankAllocatesItsOwnParametersAndTheirStateAndNothingElse) {
  for (int ranks : {1, 2, 4}) {
    TrainingRun run = mlp_run("1F1B", ranks);
    MemoryLedger ledger(ranks);
    run.ledger = &ledger;
    run.before_steps = [&](RankTrainer& trainer, Transport& transport) {
      std::int64_t own = 0, largest = 0;
      for (const ParameterInfo& info : trainer.parameters()) {
        own += static_cast<std::int64_t>(info.tensor.nbytes());
        largest = std::max(largest, static_cast<std::int64_t>(info.tensor.nbytes()));
      }
      const std::int64_t expected = own + trainer.optimizer().state_bytes();
      // Each moment of a parameter starts at a cache line.
      const auto lines = static_cast<std::int64_t>(2 * 64 * trainer.parameters().size());
      EXPECT_GE(ledger.live_bytes(transport.rank()), expected) << ranks;
      EXPECT_LT(ledger.live_bytes(transport.rank()), expected + lines) << ranks;
      // Modules first draw values of their own, which needs one more copy of a tensor at a time.
      EXPECT_LT(ledger.peak_bytes(transport.rank()), expected + lines + 2 * largest) << ranks;
    };
    run_training(run);
  }
}

TEST(TrainerTest, ThePeakOf1F1BDoesNotGrowWithTheNumberOfMicrobatches) {
  auto peaks = [](int num_microbatches) {
    TrainingRun run = mlp_run("1F1B", 2);
    run.program = training_program("1F1B", 2, num_microbatches);
    run.steps = random_steps(2, num_microbatches);
    MemoryLedger ledger(2);
    run.ledger = &ledger;
    std::vector<std::int64_t> bytes;
    for (const RankStats& stats : run_training(run).stats) bytes.push_back(stats.peak_bytes);
    return bytes;
  };
  const auto few = peaks(8), many = peaks(64);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_GT(few[rank], 0);
    // The number of tensors in flight depends on timing.
    EXPECT_LE(many[rank], few[rank] + few[rank] / 5);
  }
}

}  // namespace
}  // namespace sluice::test::trainer_test
