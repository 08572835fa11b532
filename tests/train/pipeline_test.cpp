#include "sluice/pipeline.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>

#include "sluice/parts/observers.h"
#include "support/relative_distance.h"
#include "support/user_models.h"
#include "train/pipeline_support.h"

namespace sluice::test::pipeline_test {
namespace {

torch::nn::Sequential tied_net() {
  torch::nn::Linear shared(kWidth, kWidth);
  torch::nn::Sequential net;
  net->push_back("first", shared);
  net->push_back("between", torch::nn::Tanh());
  net->push_back("again", shared);
  net->push_back("last", torch::nn::Linear(kWidth, 4));
  const at::NoGradGuard no_grad;
  keyed_normal_(shared->weight, 3, "w", 0.0, 0.3);
  shared->bias.zero_();
  auto last = net->ptr<torch::nn::LinearImpl>(3);
  keyed_normal_(last->weight, 3, "last", 0.0, 0.3);
  last->bias.zero_();
  return net;
}

struct Trained {
  std::vector<double> losses, norms;
  std::map<std::string, at::Tensor> weights;
};

bool same_bits(const Trained& a, const Trained& b) {
  if (a.losses != b.losses || a.norms != b.norms || a.weights.size() != b.weights.size())
    return false;
  for (const auto& [name, tensor] : a.weights) {
    if (!at::equal(tensor, b.weights.at(name))) return false;
  }
  return true;
}

Trained train(const PipelineOptions& options, double dropout = 0.0, int num_steps = 4) {
  torch::nn::Sequential net = make_net(dropout);
  const Model model = model_of(net);
  Trained trained;
  std::mutex mutex;
  run(model, options, [&](Pipeline& pipeline) {
    torch::optim::AdamW optimizer(pipeline.parameters(), torch::optim::AdamWOptions(1e-2));
    pipeline.check(optimizer);
    for (int step = 1; step <= num_steps; ++step) {
      const at::Tensor x = inputs_of(step);
      const StepResult result = pipeline.train_step({{"x", x}, {"y", targets_of(x)}});
      const double norm = pipeline.clip_grad_norm(0.5);
      optimizer.step();
      optimizer.zero_grad();
      if (pipeline.rank() != pipeline.num_ranks() - 1) continue;  // equal on all ranks
      trained.losses.push_back(result.loss);
      trained.norms.push_back(norm);
    }
  });
  for (const auto& item : net->named_parameters())
    trained.weights[item.key()] = item.value().detach().clone();
  return trained;
}

TEST(PipelineTest, TrainsASequentialAsAPlainLoopDoes) {
  torch::nn::Sequential net = make_net();
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-2));
  const Trained got = train(layout("1F1B", 2));
  for (int step = 1; step <= 4; ++step) {
    const at::Tensor x = inputs_of(step);
    const at::Tensor loss = torch::mse_loss(net->forward(x), targets_of(x));
    loss.backward();
    double squares = 0;
    for (const at::Tensor& p : net->parameters()) squares += p.grad().square().sum().item<double>();
    EXPECT_NEAR(got.norms[static_cast<std::size_t>(step) - 1], std::sqrt(squares), 1e-5);
    for (const at::Tensor& p : net->parameters())
      p.mutable_grad().mul_(std::min(1.0, 0.5 / (std::sqrt(squares) + 1e-6)));
    optimizer.step();
    optimizer.zero_grad();
    EXPECT_NEAR(got.losses[static_cast<std::size_t>(step) - 1], loss.item<double>(), 1e-5);
  }
  // AdamW divides by the size of the gradient, so rounding errors dominate where gradients are
  // small.
  for (const auto& item : net->named_parameters())
    EXPECT_LT(test::relative_distance(got.weights.at(item.key()), item.value()), 1e-4)
        << item.key();
}

TEST(PipelineTest, HasTheSameBitsInEveryLayout) {
  for (const double dropout : {0.0, 0.3}) {
    const Trained one = train(layout("1F1B", 1), dropout);
    EXPECT_LT(one.losses.back(), one.losses.front());
    for (const auto& [schedule, ranks] : std::map<std::string, int>{{"GPipe", 4},
                                                                    {"1F1B", 8},
                                                                    {"Interleaved1F1B", 2},
                                                                    {"ZBVZeroBubble", 4},
                                                                    {"DualPipeV", 2}}) {
      EXPECT_TRUE(same_bits(one, train(layout(schedule.c_str(), ranks), dropout)))
          << schedule << " on " << ranks;
    }
  }
}

TEST(PipelineTest, AddsGradientsUntilTheyAreCleared) {
  const at::Tensor x = inputs_of(1);
  const auto gradients = [&](int calls, bool clear_between) {
    std::vector<at::Tensor> grads;
    const Model model = model_of(make_net());
    std::mutex mutex;
    run(model, layout("1F1B", 2), [&](Pipeline& pipeline) {
      pipeline.parameters();
      for (int i = 0; i < calls; ++i) {
        if (clear_between) pipeline.zero_grad();
        pipeline.train_step({{"x", x}, {"y", targets_of(x)}});
      }
      const std::lock_guard lock(mutex);
      if (pipeline.has_first_stage()) grads.push_back(pipeline.parameters()[0].grad().clone());
    });
    return grads.at(0);
  };
  const at::Tensor once = gradients(1, false);
  EXPECT_TRUE(at::equal(gradients(2, true), once));
  EXPECT_TRUE(at::equal(gradients(2, false), once + once));
  EXPECT_TRUE(at::allclose(gradients(3, false), 3 * once));
}

// Both pipelines' hooks see every backward.
TEST(PipelineTest, TwoOfTheSameModulesEachTakeTheirOwnGradients) {
  const at::Tensor x = inputs_of(1);
  const Model model = model_of(make_net());
  const auto gradients_of = [&](Pipeline& pipeline) {
    pipeline.zero_grad();
    pipeline.train_step({{"x", x}, {"y", targets_of(x)}});
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : pipeline.parameters())
      gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::zeros({}));
    return gradients;
  };
  const auto are_equal = [](const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    return std::equal(
        a.begin(), a.end(), b.begin(), b.end(),
        [](const at::Tensor& one, const at::Tensor& two) { return at::equal(one, two); });
  };
  for (const char* schedule : {"1F1B", "ZBVZeroBubble"}) {
    run(model, layout("1F1B", 1), [&](Pipeline& first) {
      const std::vector<at::Tensor> alone = gradients_of(first);
      run(model, layout(schedule, 1), [&](Pipeline& second) {
        EXPECT_TRUE(are_equal(gradients_of(second), alone)) << schedule;
      });
      EXPECT_TRUE(are_equal(gradients_of(first), alone)) << schedule;
    });
  }
}

TEST(PipelineTest, EvaluatesAnyNumberOfRowsWithoutAGraph) {
  torch::nn::Sequential net = make_net(0.3);
  const Model model = model_of(net);
  for (const std::int64_t rows : {1, 3, 8, 24, 25}) {
    const at::Tensor x = inputs_of(1, rows);
    net->eval();
    const at::Tensor expected = net->forward(x);
    net->train();
    std::vector<at::Tensor> outputs;
    std::vector<double> losses(4);
    run(model, layout("ZBVZeroBubble", 4), [&](Pipeline& pipeline) {
      const StepResult result = pipeline.eval_step({{"x", x}, {"y", targets_of(x)}},
                                                   {.outputs = OutputRanks::kLastStage});
      losses[pipeline.rank()] = result.loss;
      EXPECT_EQ(result.count, rows);
      EXPECT_EQ(result.outputs.empty(), !pipeline.has_last_stage());
      for (const Values& values : result.outputs) {
        EXPECT_FALSE(values["hidden"].requires_grad());
        outputs.push_back(values["hidden"]);
      }
    });
    EXPECT_TRUE(at::allclose(at::cat(outputs), expected, 1e-5, 1e-6));
    for (const double loss : losses) EXPECT_EQ(loss, losses[0]);
    EXPECT_NEAR(losses[0], torch::mse_loss(expected, targets_of(x)).item<double>(), 1e-6);
    EXPECT_TRUE(net->is_training());
  }
}

TEST(PipelineTest, SumsTheGradientsOfAModuleThatIsUsedTwice) {
  torch::nn::Sequential plain = tied_net();
  std::vector<at::Tensor> once;  // LibTorch lists parameters of a module used twice two times
  for (const at::Tensor& p : plain->parameters()) {
    const auto same = [&](const at::Tensor& other) { return other.is_same(p); };
    if (std::none_of(once.begin(), once.end(), same)) once.push_back(p);
  }
  torch::optim::SGD sgd(once, torch::optim::SGDOptions(0.1));
  std::vector<at::Tensor> weights;
  for (const int ranks : {1, 2, 4}) {
    torch::nn::Sequential net = tied_net();
    run(model_of(net), layout("1F1B", ranks), [&](Pipeline& pipeline) {
      torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.1));
      for (int step = 1; step <= 3; ++step) {
        const at::Tensor x = inputs_of(step);
        pipeline.train_step({{"x", x}, {"y", targets_of(x)}});
        optimizer.step();
        optimizer.zero_grad();
      }
    });
    weights.push_back(net->ptr<torch::nn::LinearImpl>(0)->weight.detach().clone());
  }
  for (int step = 1; step <= 3; ++step) {
    const at::Tensor x = inputs_of(step);
    torch::mse_loss(plain->forward(x), targets_of(x)).backward();
    sgd.step();
    sgd.zero_grad();
  }
  EXPECT_TRUE(at::equal(weights[0], weights[1]));
  EXPECT_TRUE(at::equal(weights[0], weights[2]));
  EXPECT_TRUE(at::allclose(weights[0], plain->ptr<torch::nn::LinearImpl>(0)->weight, 1e-5, 1e-6));
}

TEST(PipelineTest, EvaluatesAModelThatIsTiedAcrossRanks) {
  torch::nn::Sequential net = tied_net();
  const at::Tensor x = inputs_of(1);
  const double expected = torch::mse_loss(net->forward(x), targets_of(x)).item<double>();
  run(model_of(net), layout("1F1B", 4), [&](Pipeline& pipeline) {
    EXPECT_NEAR(pipeline.eval_step({{"x", x}, {"y", targets_of(x)}}).loss, expected, 1e-6);
  });
}

TEST(PipelineTest, StateOfATiedModelDoesNotDependOnTheLayout) {
  std::map<std::string, at::Tensor> states[2];
  std::mutex mutex;
  for (const int ranks : {1, 4}) {
    run(model_of(tied_net()), layout("1F1B", ranks), [&](Pipeline& pipeline) {
      const std::lock_guard lock(mutex);
      for (const auto& [name, tensor] : pipeline.local_state_dict())
        states[ranks == 4][name] = tensor.clone();
    });
  }
  ASSERT_EQ(states[0].size(), 4u);
  ASSERT_EQ(states[1].size(), 4u);
  for (const auto& [name, tensor] : states[0])
    EXPECT_TRUE(at::equal(tensor, states[1].at(name))) << name;
}

// These layers cannot split their backward, and a stage's W have a different order from its I. Sums
// must follow the order of W, even after an evaluation.
TEST(PipelineTest, AnEvaluationBetweenStepsChangesNothing) {
  const Schedule schedule = parse_schedule_csv(
      "0F0,0F1,0F2,0I0,0I1,0I2,0W2,0W1,0W0\n1F0,1I0,1W0,1F1,1I1,1W1,1F2,1I2,1W2\n", "test.csv");
  const auto gradients = [&](bool evaluates) {
    Model model{make_user_layers(UserModel::kUnsplittable, 6, kWidth, 0.0),
                {"x", "y"},
                {"prediction"},
                &squared_error,
                [](const Values& batch) { return batch["y"].numel(); }};
    std::vector<at::Tensor> grads;
    run(model, {.schedule = schedule}, [&](Pipeline& pipeline) {
      const at::Tensor x = inputs_of(1), y = at::sin(x);
      pipeline.parameters();
      pipeline.train_step({{"x", x}, {"y", y}});
      if (evaluates) pipeline.eval_step({{"x", x}, {"y", y}});
      pipeline.zero_grad();
      pipeline.train_step({{"x", x}, {"y", y}});
      if (!pipeline.has_first_stage()) return;
      for (const at::Tensor& p : pipeline.parameters()) grads.push_back(p.grad().clone());
    });
    return grads;
  };
  const auto with = gradients(true), without = gradients(false);
  ASSERT_FALSE(with.empty());
  for (std::size_t i = 0; i < with.size(); ++i) EXPECT_TRUE(at::equal(with[i], without[i])) << i;
}

TEST(PipelineTest, LeavesModulesInTheModeThatTheyWereIn) {
  torch::nn::Sequential net = make_net(0.3);
  net->ptr(4)->eval();  // disabled by the user
  run(model_of(net), layout("1F1B", 2), [&](Pipeline& pipeline) {
    const at::Tensor x = inputs_of(1);
    pipeline.train_step({{"x", x}, {"y", targets_of(x)}});
    pipeline.eval_step({{"x", x}, {"y", targets_of(x)}});
  });
  EXPECT_FALSE(net->ptr(4)->is_training());
  EXPECT_TRUE(net->ptr(0)->is_training());
}

TEST(PipelineTest, LeavesFrozenLayersAsTheyAre) {
  torch::nn::Sequential net = make_net(), plain = make_net();
  for (const auto& which : {net, plain}) {
    for (at::Tensor& p : which->ptr(2)->parameters()) p.set_requires_grad(false);
    for (at::Tensor& p : which->ptr(0)->parameters()) p.set_requires_grad(false);
  }
  const at::Tensor x = inputs_of(1);
  run(model_of(net), layout("ZBVZeroBubble", 4), [&](Pipeline& pipeline) {
    for (const at::Tensor& p : pipeline.parameters()) EXPECT_TRUE(p.requires_grad());
    torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.1));
    pipeline.train_step({{"x", x}, {"y", targets_of(x)}});
    pipeline.clip_grad_norm(100.0);
    optimizer.step();
  });
  std::vector<at::Tensor> trained;
  for (const at::Tensor& p : plain->parameters()) {
    if (p.requires_grad()) trained.push_back(p);
  }
  torch::optim::SGD optimizer(trained, torch::optim::SGDOptions(0.1));
  torch::mse_loss(plain->forward(x), targets_of(x)).backward();
  optimizer.step();
  const auto expected = plain->named_parameters();
  for (const auto& item : net->named_parameters())
    EXPECT_TRUE(at::allclose(item.value(), expected[item.key()], 1e-5, 1e-6)) << item.key();
}

TEST(PipelineTest, AsksForObserversOnceARank) {
  std::vector<int> asked(2);
  struct Counter final : ExecutorObserver {
    void begin_step(std::int64_t) override { ++steps; }
    int steps = 0;
  };
  std::vector<Counter> counters(2);
  RunOptions options;
  options.observers = [&](int rank) {
    ++asked[rank];
    return std::vector<ExecutorObserver*>{&counters[rank]};
  };
  const at::Tensor x = inputs_of(1);
  run(
      model_of(make_net()), layout("1F1B", 2),
      [&](Pipeline& pipeline) {
        pipeline.train_step({{"x", x}, {"y", targets_of(x)}});
        pipeline.eval_step({{"x", x}, {"y", targets_of(x)}});
        pipeline.eval_step({{"x", x.slice(0, 0, 3)}, {"y", targets_of(x.slice(0, 0, 3))}});
      },
      options);
  EXPECT_EQ(asked, (std::vector<int>{1, 1}));
  EXPECT_EQ(counters[0].steps, 3);
}

TEST(PipelineTest, StateIsThatOfTheWholeModelByName) {
  const auto make = [] {
    return torch::nn::Sequential(torch::nn::Linear(kWidth, kWidth), torch::nn::BatchNorm1d(kWidth),
                                 torch::nn::Linear(kWidth, 4));
  };
  torch::nn::Sequential net = make(), other = make();
  std::vector<std::pair<std::string, at::Tensor>> state;
  std::mutex mutex;
  const auto step = [&](Pipeline& pipeline) {
    const at::Tensor x = inputs_of(1);
    return pipeline.train_step({{"x", x}, {"y", targets_of(x)}}).loss;
  };
  run(model_of(net), layout("1F1B", 3, 4), [&](Pipeline& pipeline) {
    step(pipeline);
    const std::lock_guard lock(mutex);
    for (auto& item : pipeline.local_state_dict()) state.push_back(std::move(item));
  });
  std::set<std::string> names, expected;
  for (const auto& [name, tensor] : state) names.insert(name);
  for (const auto& item : net->named_parameters()) expected.insert(item.key());
  for (const auto& item : net->named_buffers()) expected.insert(item.key());
  EXPECT_EQ(names, expected);
  EXPECT_TRUE(names.contains("1.running_mean"));
  run(model_of(other), layout("1F1B", 1, 4),
      [&](Pipeline& pipeline) { pipeline.load_state_dict(state); });
  for (const auto& item : other->named_buffers())
    EXPECT_TRUE(at::equal(item.value(), net->named_buffers()[item.key()])) << item.key();
  for (const auto& item : other->named_parameters())
    EXPECT_TRUE(at::equal(item.value(), net->named_parameters()[item.key()])) << item.key();
}

}  // namespace
}  // namespace sluice::test::pipeline_test
