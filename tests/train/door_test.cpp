#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <map>
#include <sstream>

#include "sluice/model.h"
#include "sluice/trainer.h"
#include "support/expect_error.h"
#include "train/trainer_support.h"

namespace sluice::test::door_test {
namespace {

Model counted(Model model) {
  model.count = [](const Values& batch) { return batch.get("y").numel(); };
  return model;
}

Inputs batch_of(int step, std::int64_t rows = 16) {
  const at::Tensor x =
      at::sin(at::arange(rows * kTrainerWidth, at::kFloat) * 0.3 + step).view({rows, -1});
  return {{"x", x}, {"y", at::cos(2 * x)}};
}

PipelineOptions layout(const char* schedule, int ranks) {
  PipelineOptions options;
  options.schedule = schedule;
  options.num_ranks = ranks;
  options.num_microbatches = 4;
  return options;
}

TEST(DoorTest, ARunReturnsWhatItsBodiesReturnInTheOrderOfTheRanks) {
  const Model model = counted(mlp(/*tied=*/false));
  const std::vector<std::pair<int, double>> results =
      run(model, layout("1F1B", 4), [](Pipeline& pipeline) {
        pipeline.parameters();
        return std::pair(pipeline.rank(), pipeline.train_step(batch_of(1)).loss);
      });
  ASSERT_EQ(results.size(), 4U);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(results[rank].first, rank);
    EXPECT_EQ(results[rank].second, results[0].second);
  }
  const auto body = [](Pipeline& pipeline) -> std::string {
    if (pipeline.rank() == 1) throw std::runtime_error("no result");
    return "a result";
  };
  const Error error = error_of([&] { run(model, layout("1F1B", 2), body); });
  EXPECT_NE(std::string(error.what()).find("no result; rank 1"), std::string::npos) << error.what();
}

at::Tensor joined(const std::vector<Values>& outputs) {
  std::vector<at::Tensor> rows;
  for (const Values& values : outputs) rows.push_back(values["prediction"]);
  return rows.empty() ? at::Tensor() : at::cat(rows);
}

TEST(DoorTest, APredictionNeedsNoLabelsAndHasTheBitsOfAnEvaluation) {
  const Model model = counted(mlp(/*tied=*/true));
  for (const auto& [schedule, ranks] : {std::pair("GPipe", 1), std::pair("ZBVZeroBubble", 2)}) {
    run(model, layout(schedule, ranks), [&](Pipeline& pipeline) {
      const Inputs whole = batch_of(1, 7);
      const at::Tensor x =
          at::sin(at::arange(7 * kTrainerWidth, at::kFloat) * 0.3 + 1).view({7, -1});
      const at::Tensor expected =
          joined(pipeline.eval_step(whole, {.outputs = OutputRanks::kAll}).outputs);
      EXPECT_TRUE(at::equal(joined(pipeline.predict({{"x", x}})), expected));
      EXPECT_TRUE(at::equal(joined(pipeline.predict(whole)), expected));
      const auto last = pipeline.predict({{"x", x}}, OutputRanks::kLastStage);
      EXPECT_EQ(last.empty(), !pipeline.has_last_stage());
      if (!last.empty()) {
        EXPECT_TRUE(at::equal(joined(last), expected));
      }
    });
  }
  const Error error = error_of([&] {
    run(model, layout("1F1B", 2), [](Pipeline& p) { p.predict({{"y", at::ones({4, 8})}}); });
  });
  EXPECT_NE(std::string(error.what()).find("the input 'x' is missing"), std::string::npos)
      << error.what();
}

TEST(DoorTest, AReplicaPredictsItsOwnRows) {
  PipelineOptions options = layout("1F1B", 2);
  options.num_microbatches = 2;
  options.data_parallel.degree = 2;
  run(counted(mlp(/*tied=*/false)), options, [](Pipeline& pipeline) {
    const at::Tensor x = at::sin(at::arange(8 * kTrainerWidth, at::kFloat) * 0.3).view({8, -1});
    const at::Tensor rows = x.tensor_split(2)[pipeline.replica()];
    const at::Tensor predicted = joined(pipeline.predict({{"x", rows}}));
    EXPECT_EQ(predicted.size(0), 4);
  });
}

TEST(DoorTest, TheWholeStateIsOnRankZeroWhateverTheLayout) {
  using State = std::map<std::string, at::Tensor>;
  const auto state_of_run = [](const char* schedule, int ranks, const DataParallel& how) {
    PipelineOptions options = layout(schedule, ranks);
    options.num_microbatches = 4 / how.degree;
    options.data_parallel = how;
    options.step_end = StepEnd::kUpdate;
    const auto states =
        run(counted(mlp(/*tied=*/true)), options,
            [](Pipeline& pipeline) {
              Trainer trainer(pipeline, {});
              const at::Tensor x =
                  at::sin(at::arange(16 * kTrainerWidth, at::kFloat) * 0.3).view({16, -1});
              const at::Tensor rows = x.tensor_split(pipeline.num_replicas())[pipeline.replica()];
              trainer.step({{"x", rows}, {"y", at::cos(2 * rows)}}, 0.1);
              const auto state = pipeline.state_dict();
              return State(state.begin(), state.end());
            },
            {.seed = 3});
    for (std::size_t rank = 1; rank < states.size(); ++rank) EXPECT_TRUE(states[rank].empty());
    return states.front();
  };
  DataParallel two, sharded;
  two.shards = sharded.shards = 2;
  sharded.degree = 2;
  sharded.zero3 = true;
  const State alone = state_of_run("GPipe", 1, two);
  EXPECT_TRUE(alone.contains("last.weight")) << "a tied one has all its names";
  EXPECT_TRUE(at::equal(alone.at("last.weight"), alone.at("first.weight")));
  for (const State& other :
       {state_of_run("1F1B", 4, two), state_of_run("ZBVZeroBubble", 2, sharded)}) {
    ASSERT_EQ(other.size(), alone.size());
    for (const auto& [name, value] : alone) EXPECT_TRUE(at::equal(other.at(name), value)) << name;
  }
}

TEST(DoorTest, LayersByNamedValuesAreThoseByPosition) {
  const auto by_name = [] {
    Model model;
    for (int i = 0; i < 3; ++i) {
      model.layers.push_back(layer(
          "block" + std::to_string(i), {i == 0 ? "x" : "hidden", "x"}, {"hidden"},
          [] { return torch::nn::Linear(kTrainerWidth, kTrainerWidth); },
          [i](torch::nn::LinearImpl& linear, const Values& in) {
            return at::tanh(linear.forward(in[i == 0 ? "x" : "hidden"]) + in["x"]);
          }));
    }
    model.layers.push_back(layer(
        "two", {"hidden"}, {"hidden", "prediction"},
        [] { return std::make_shared<torch::nn::LinearImpl>(kTrainerWidth, kTrainerWidth); },
        [](torch::nn::LinearImpl& linear, const Values& in) {
          const at::Tensor out = linear.forward(in["hidden"]);
          return Values{{"prediction", out}, {"hidden", 2 * out}};  // the order does not matter
        }));
    model.inputs = {"x", "y"};
    model.outputs = {"prediction"};
    model.loss = squared_error;
    return counted(std::move(model));
  };
  const auto by_position = [&] {
    Model model = by_name();
    for (std::size_t i = 0; i < 3; ++i) {
      model.layers[i].forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& in) {
        return std::vector{at::tanh(module.as<torch::nn::LinearImpl>()->forward(in[0]) + in[1])};
      };
    }
    model.layers[3].forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& in) {
      const at::Tensor out = module.as<torch::nn::LinearImpl>()->forward(in[0]);
      return std::vector<at::Tensor>{2 * out, out};
    };
    return model;
  };
  const auto losses = [](const Model& model, int ranks) {
    return run(model, layout("1F1B", ranks),
               [](Pipeline& pipeline) {
                 std::vector<double> own;
                 torch::optim::SGD optimizer(pipeline.parameters(), 0.01);
                 for (int step = 0; step < 3; ++step) {
                   own.push_back(pipeline.train_step(batch_of(step)).loss);
                   optimizer.step();
                   optimizer.zero_grad();
                 }
                 return own;
               })
        .front();
  };
  EXPECT_EQ(losses(by_name(), 2), losses(by_position(), 1));
}

TEST(DoorTest, APlanPrintsItself) {
  std::ostringstream text;
  text << plan_pipeline(describe(mlp(false).layers), layout("1F1B", 2));
  EXPECT_NE(text.str().find("1F1B"), std::string::npos);
  EXPECT_EQ(text.str().back(), '\n');
}

}  // namespace
}  // namespace sluice::test::door_test
