// Misuse is rejected with an error that names what, where and the remedy.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <torch/data/samplers/random.h>
#include <torch/optim/sgd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "base/log.h"
#include "sluice/parts/observers.h"
#include "support/expect_error.h"
#include "support/user_models.h"
#include "train/pipeline_support.h"

namespace sluice::test::pipeline_misuse_test {
namespace {

using namespace std::chrono_literals;
using Parts = std::vector<std::string>;

void expect_parts(const Error& error, ErrorKind kind, const Parts& parts) {
  EXPECT_EQ(error.kind(), kind) << error.what();
  for (const std::string& part : parts)
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << "no '" << part << "' in: " << error.what();
}

std::vector<at::Tensor> cloned(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

struct Case {
  ErrorKind kind;
  Parts parts;
  std::function<void(Pipeline&)> body;
};

class PipelineMisuseTest : public ::testing::Test {
 protected:
  void expect_refused(const std::vector<Case>& cases, const RunOptions& options = {}) {
    for (const Case& c : cases) {
      expect_parts(error_of([&] { run(model, layout("1F1B", 2), c.body, options); }), c.kind,
                   c.parts);
    }
  }
  void expect_refused_model(const Parts& parts, const std::function<void(Model&)>& spoil) {
    Model spoilt = model;
    spoil(spoilt);
    expect_parts(error_of([&] {
                   run(spoilt, layout("1F1B", 2), [&](Pipeline& p) { p.train_step({x, y}); });
                 }),
                 ErrorKind::kUsage, parts);
  }

  const at::Tensor x = inputs_of(1), y = targets_of(x);
  torch::nn::Sequential net = make_net();
  const Model model = model_of(net);
};

TEST_F(PipelineMisuseTest, Inputs) {
  const at::Tensor lengths_y = targets_of(inputs_of(1, 3));
  const std::vector<std::int64_t> lengths(24, 1);
  expect_refused({
      {ErrorKind::kUsage,
       {"no input 'z'", "did you mean"},
       [&](Pipeline& p) {
         p.train_step({{"x", x}, {"z", y}});
       }},
      {ErrorKind::kUsage,
       {"'y' is missing", "Model::inputs"},
       [&](Pipeline& p) {
         p.train_step({{"x", x}});
       }},
      {ErrorKind::kUsage, {"'y' is missing"}, [&](Pipeline& p) { p.train_step({x}); }},
      {ErrorKind::kUsage,
       {"3 inputs are given, but the model has 2"},
       [&](Pipeline& p) {
         p.train_step({x, y, y});
       }},
      {ErrorKind::kUsage,
       {"some inputs have names", "all by name, or all in order"},
       [&](Pipeline& p) {
         Inputs inputs;
         inputs.add("x", x);
         inputs.add(y);
         p.train_step(inputs);
       }},
      {ErrorKind::kUsage,
       {"'y' is given twice"},
       [&](Pipeline& p) {
         p.train_step({{"x", x}, {"y", y}, {"y", y}});
       }},
      {ErrorKind::kUsage,
       {"'y' has 23 rows to cut", "'x' has 24", "Input::replicated"},
       [&](Pipeline& p) {
         p.train_step({{"x", x}, {"y", y.slice(0, 1)}});
       }},
      {ErrorKind::kUsage,
       {"'x' is an undefined tensor"},
       [&](Pipeline& p) {
         p.train_step({at::Tensor(), y});
       }},
      {ErrorKind::kUsage,
       {"has no dimension 2 to cut"},
       [&](Pipeline& p) {
         p.train_step({Input::split(x, 2), y});
       }},
      {ErrorKind::kUsage,
       {"rows of 'x' add up to 23, but the tensor has 24"},
       [&](Pipeline& p) {
         p.train_step({Input::ragged(x, std::vector<std::int64_t>(23, 1)), y});
       }},
      {ErrorKind::kUsage,
       {"a row of negative length"},
       [&](Pipeline& p) {
         p.train_step({Input::ragged(x, {25, -1}), y});
       }},
      {ErrorKind::kUsage,
       {"offsets 'x' do not start with 0", "ascend from 0"},
       [&](Pipeline& p) {
         p.train_step({Input::offsets(at::arange(1, 26)), y});
       }},
      {ErrorKind::kUsage,
       {"offsets 'x' descend"},
       [&](Pipeline& p) {
         p.train_step({Input::offsets(-at::arange(25)), y});
       }},
      {ErrorKind::kUsage,
       {"offsets 'x' are float32[24, 12]"},
       [&](Pipeline& p) {
         p.train_step({Input::offsets(x), y});
       }},
      {ErrorKind::kUsage,
       {"for 3 microbatches", "for 2"},
       [&](Pipeline& p) {
         p.train_step({Input::per_microbatch({x, x}), Input::per_microbatch({y, y, y})});
       }},
      {ErrorKind::kUsage,
       {"'x' has no microbatches"},
       [&](Pipeline& p) {
         p.train_step({Input::per_microbatch({}), y});
       }},
      {ErrorKind::kUsage,
       {"'y' has no rows"},
       [&](Pipeline& p) {
         p.eval_step({x.slice(0, 0, 0), y.slice(0, 0, 0)});
       }},
      {ErrorKind::kInput,
       {"3 microbatches", "the schedule has 8", "num_microbatches = 3"},
       [&](Pipeline& p) {
         p.train_step({x.slice(0, 0, 3), y.slice(0, 0, 3)});
       }},
  });
}

TEST_F(PipelineMisuseTest, RanksThatDiffer) {
  expect_refused({
      {ErrorKind::kUsage,
       {"have microbatches with different counts", "train_step on rank"},
       [&](Pipeline& p) {
         const std::int64_t rows = p.rank() == 0 ? 24 : 16;
         p.train_step({x.slice(0, 0, rows), y.slice(0, 0, rows)});
       }},
      {ErrorKind::kUsage,
       {"rank", "train_step", "body", "the same calls"},
       [&](Pipeline& p) {
         p.train_step({x, y});
         if (p.rank() == 0) p.train_step({x, y});
       }},
      {ErrorKind::kUsage,
       {" called ", "clip_grad_norm", "train_step"},
       [&](Pipeline& p) {
         p.train_step({x, y});
         if (p.rank() == 0) p.clip_grad_norm(1.0);
         p.train_step({x, y});
       }},
      {ErrorKind::kUsage,
       {"pass different batches", "the same batch on every rank"},
       [&](Pipeline& p) {
         p.train_step({p.rank() == 0 ? x : inputs_of(2), y});
       }},
      {ErrorKind::kUsage,
       {" called ", "the same calls"},
       [&](Pipeline& p) {
         p.rank() == 0 ? p.train_step({x, y}) : p.eval_step({x, y});
       }},
      {ErrorKind::kUsage,
       {"the StepOptions of ranks", "differ in outputs"},
       [&](Pipeline& p) {
         p.train_step({x, y},
                      {.outputs = p.rank() == 0 ? OutputRanks::kAll : OutputRanks::kLastStage});
       }},
      {ErrorKind::kUsage,
       {"the StepOptions of ranks", "differ in scale"},
       [&](Pipeline& p) {
         StepOptions options;
         if (p.rank() == 0) options.scale = GradientScale::kSumOfMeans;
         p.train_step({x, y}, options);
       }},
  });
}

class Meddler final : public ExecutorObserver {
 public:
  std::function<void(Pipeline&)> call;
  Pipeline* pipeline = nullptr;
  void begin(int /*index*/, const Action& /*action*/) override {
    if (pipeline) call(*pipeline);
  }
};

TEST_F(PipelineMisuseTest, CallsWithinAStep) {
  Meddler meddler;
  RunOptions options;
  options.observers = [&](int rank) {
    return rank == 0 ? std::vector<ExecutorObserver*>{&meddler} : std::vector<ExecutorObserver*>{};
  };
  const std::vector<std::pair<std::string, std::function<void(Pipeline&)>>> calls = {
      {"train_step",
       [&](Pipeline& p) {
         p.train_step({x, y});
       }},
      {"eval_step",
       [&](Pipeline& p) {
         p.eval_step({x, y});
       }},
      {"parameters", [](Pipeline& p) { p.parameters(); }},
      {"named_parameters", [](Pipeline& p) { p.named_parameters(); }},
      {"local_state_dict", [](Pipeline& p) { p.local_state_dict(); }},
      {"load_state_dict", [](Pipeline& p) { p.load_state_dict({}); }},
      {"clip_grad_norm", [](Pipeline& p) { p.clip_grad_norm(1.0); }},
      {"scale_grads_by_divisor", [](Pipeline& p) { p.scale_grads_by_divisor(2.0); }},
      {"zero_grad", [](Pipeline& p) { p.zero_grad(); }}};
  for (const auto& [name, call] : calls) {
    meddler.call = call;
    meddler.pipeline = nullptr;
    expect_refused({{ErrorKind::kUsage,
                     {"Pipeline::" + name + " was called within a step",
                      "Pipeline::train_step has not returned", "call it between steps"},
                     [&](Pipeline& p) {
                       if (p.rank() == 0) meddler.pipeline = &p;
                       p.train_step({x, y});
                     }}},
                   options);
  }
  // A failed step must not affect the next pipeline of the same thread.
  EXPECT_NO_THROW(run(model, layout("1F1B", 1), [&](Pipeline& p) { p.train_step({x, y}); }));
}

TEST_F(PipelineMisuseTest, CallsOnAnotherThread) {
  run(model, layout("1F1B", 1), [&](Pipeline& pipeline) {
    std::string said;
    std::thread([&] { said = message_of([&] { pipeline.train_step({x, y}); }); }).join();
    EXPECT_NE(said.find("Pipeline::train_step was called on a thread that is not the pipeline's"),
              std::string::npos)
        << said;
    // The body of the inner run uses the outer run's pipeline.
    run(model, layout("1F1B", 2), [&](Pipeline& inner) {
      EXPECT_THROW(pipeline.clip_grad_norm(1.0), Error);
      inner.train_step({x, y});
    });
    pipeline.train_step({x, y});
  });
}

TEST_F(PipelineMisuseTest, InputsThatRequireAGradient) {
  expect_refused(
      {{ErrorKind::kUsage,
        {"the input 'x' requires a gradient", "x.detach()"},
        [&](Pipeline& p) {
          p.train_step({x.clone().requires_grad_(), y});
        }},
       {ErrorKind::kUsage, {"the input 'y' requires a gradient"}, [&](Pipeline& p) {
          p.train_step({x, Input::per_microbatch((y * at::ones({1}).requires_grad_()).split(3))});
        }}});
  run(model, layout("1F1B", 2), [&](Pipeline& p) {
    EXPECT_NO_THROW(p.eval_step({x.clone().requires_grad_(), y}));
  });
}

TEST_F(PipelineMisuseTest, ShapesThatDoNotFitAreThoseOfALayerOrOfTheLoss) {
  const torch::nn::Sequential narrow(
      torch::nn::Linear(kWidth, kWidth), torch::nn::Tanh(), torch::nn::Linear(kWidth, kWidth),
      torch::nn::Linear(kWidth + 1, 4), torch::nn::Linear(4, 4), torch::nn::Tanh());
  expect_parts(
      error_of([&] {
        run(model_of(narrow), layout("1F1B", 2), [&](Pipeline& p) { p.train_step({x, y}); });
      }),
      ErrorKind::kInternal,
      {"mat1 and mat2", "rank 1, instruction", "(stage 1, microbatch 0), step 1, layer '3'"});
  Model other = model;
  other.loss = mean_loss([](const Values& out, const Values& in) {
    return at::mse_loss(out["hidden"].mm(in["y"]), in["y"]);
  });
  expect_parts(error_of([&] {
                 run(other, layout("1F1B", 2), [&](Pipeline& p) { p.train_step({x, y}); });
               }),
               ErrorKind::kInternal, {"mat1 and mat2", "rank 1", "step 1, Model::loss"});
}

std::function<void(Pipeline&)> trained_with(const std::function<std::vector<at::Tensor>()>& of,
                                            const Inputs& inputs) {
  return [=](Pipeline& p) {
    torch::optim::SGD optimizer(of(), torch::optim::SGDOptions(0.1));
    for (int step = 0; step < 3; ++step) {
      p.train_step(inputs);
      p.clip_grad_norm(1.0);
      optimizer.step();
      optimizer.zero_grad();
    }
  };
}

TEST_F(PipelineMisuseTest, RejectsOptimizerOfParametersNotFromPipeline) {
  const torch::nn::Sequential other = make_net();
  const Parts parts = {"a second step", "such as '", "Pipeline::train_step on rank",
                       "of pipeline.parameters()"};
  const std::vector<at::Tensor> before = cloned(net->parameters());
  expect_refused(
      {{ErrorKind::kUsage, parts, trained_with([&] { return net->parameters(); }, {x, y})},
       {ErrorKind::kUsage, parts, trained_with([&] { return other->parameters(); }, {x, y})},
       {ErrorKind::kUsage, parts, [&](Pipeline& p) {
          p.train_step({x, y});
          p.zero_grad();
          p.train_step({x, y});
        }}});
  // No rank has updated the user's module or written a gradient to it.
  const std::vector<at::Tensor> after = net->parameters();
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_TRUE(at::equal(after[i], before[i])) << i;
    EXPECT_FALSE(after[i].grad().defined()) << i;
  }
}

TEST_F(PipelineMisuseTest, SingleRankAcceptsTheModulesOwnParameters) {
  const auto trained = [&](bool asks) {
    const torch::nn::Sequential own = make_net();
    run(model_of(own), layout("1F1B", 1), [&](Pipeline& p) {
      trained_with([&] { return asks ? p.parameters() : own->parameters(); }, {x, y})(p);
    });
    return own->parameters();
  };
  const std::vector<at::Tensor> want = trained(true), got = trained(false);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(at::equal(got[i], want[i])) << i;
}

TEST_F(PipelineMisuseTest, GradientsAreThereWhenParametersAreAskedForAfterAStep) {
  const auto grads = [&](bool asks_first, bool clips) {
    std::vector<at::Tensor> found;
    run(model_of(make_net()), layout("1F1B", 1), [&](Pipeline& p) {
      if (asks_first) p.parameters();
      p.train_step({x, y});
      if (clips) p.clip_grad_norm(0.1);
      p.scale_grads_by_divisor(2);
      for (const at::Tensor& parameter : p.parameters()) found.push_back(parameter.grad());
      p.zero_grad();
      EXPECT_FALSE(p.parameters().front().grad().defined());
      EXPECT_NO_THROW(p.train_step({x, y}));
    });
    return found;
  };
  for (const bool clips : {false, true}) {
    const std::vector<at::Tensor> want = grads(true, clips), got = grads(false, clips);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(at::equal(got[i], want[i])) << i;
  }
}

TEST_F(PipelineMisuseTest, AnElementThatDiffersBetweenRanks) {
  for (const bool trains : {true, false}) {
    expect_refused({{ErrorKind::kUsage, {"pass different batches"}, [&](Pipeline& p) {
                       at::Tensor own = x.clone();
                       if (p.rank() == 1) own[8][5] += 1;
                       trains ? p.train_step({own, y}) : p.eval_step({own, y});
                     }}});
  }
}

TEST_F(PipelineMisuseTest, RandomSamplersDifferByRankButUnderAKey) {
  const auto shuffled = [&](Pipeline& p, bool keyed) {
    std::optional<KeyedRandomScope> scope;
    if (keyed) scope.emplace(p.seed(), 0, "loader", 0);
    torch::data::samplers::RandomSampler sampler(kRows);
    const std::vector<std::size_t> rows = sampler.next(kRows).value();
    return at::tensor(std::vector<std::int64_t>(rows.begin(), rows.end()));
  };
  expect_refused({{ErrorKind::kUsage,
                   {"pass different batches", "RandomSampler",
                    "sluice::KeyedRandomScope(pipeline.seed(), epoch, \"loader\", 0)"},
                   [&](Pipeline& p) {
                     const at::Tensor order = shuffled(p, false);
                     p.train_step({x.index_select(0, order), y.index_select(0, order)});
                   }}});
  run(model, layout("1F1B", 2), [&](Pipeline& p) {
    const at::Tensor order = shuffled(p, true);
    EXPECT_NO_THROW(p.train_step({x.index_select(0, order), y.index_select(0, order)}));
  });
}

class LoggedMisuseTest : public PipelineMisuseTest {
 protected:
  LoggedMisuseTest() {
    set_log_sink([this](LogLevel level, std::string_view message) {
      if (level == LogLevel::kWarning) said.emplace_back(message);
    });
  }
  ~LoggedMisuseTest() override { set_log_sink({}); }

  std::vector<std::string> said;
};

TEST_F(LoggedMisuseTest, ANumberOfMicrobatchesThatIsForgotten) {
  run(model, {.num_ranks = 2}, [&](Pipeline& p) {
    EXPECT_EQ(p.plan().warnings.size(), 1u);
    p.train_step({x, y});
  });
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("`num_microbatches` is not given"), std::string::npos) << said[0];
}

TEST_F(LoggedMisuseTest, ALossThatIsNotFiniteIsSaidOnce) {
  run(model, layout("1F1B", 2), [&](Pipeline& p) {
    p.parameters();
    p.train_step({x, y});
    p.train_step({x, y / 0});
    p.train_step({x, y / 0});
  });
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("the loss of step 2 is "), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("StepResult::loss"), std::string::npos) << said[0];
}

TEST_F(LoggedMisuseTest, AnOptimizerOfAnotherModuleOnOneRankIsSaidOnce) {
  const torch::nn::Sequential other = make_net();
  run(model, layout("1F1B", 1), trained_with([&] { return other->parameters(); }, {x, y}));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("an optimizer of another module's parameters trains nothing"),
            std::string::npos)
      << said[0];
}

TEST_F(PipelineMisuseTest, ParametersAndOptimizers) {
  expect_refused({
      {ErrorKind::kUsage,
       {"float32[4, 3]", "after the pipeline, of pipeline.parameters()"},
       [&](Pipeline& p) {
         torch::nn::Linear mine(3, 4);
         p.check(torch::optim::SGD(mine->parameters(), torch::optim::SGDOptions(0.1)));
       }},
      {ErrorKind::kUsage,
       {"not belong to this rank's pipeline"},
       [&](Pipeline& p) {
         p.check(torch::optim::SGD(net->parameters(), torch::optim::SGDOptions(0.1)));
       }},
      {ErrorKind::kUsage,
       {"weight' is missing", "0.weigth"},
       [&](Pipeline& p) {
         p.load_state_dict({{"0.weigth", x}});
       }},
      {ErrorKind::kUsage,
       {"the divisor is 0", "Pipeline::scale_grads_by_divisor", "1e-30 to 1e+30"},
       [&](Pipeline& p) { p.scale_grads_by_divisor(0); }},
      {ErrorKind::kUsage,
       {"the divisor is -1", "train_step"},
       [&](Pipeline& p) {
         p.train_step({x, y}, {.scale = {{GradientScale::kDivisor, -1}}});
       }},
  });
}

TEST_F(PipelineMisuseTest, Gradients) {
  expect_refused({
      {ErrorKind::kUsage,
       {"the largest norm is -1", "Pipeline::clip_grad_norm"},
       [&](Pipeline& p) { p.clip_grad_norm(-1); }},
      {ErrorKind::kUsage,
       {"gradients are switched off", "Pipeline::train_step", "NoGradGuard"},
       [&](Pipeline& p) {
         const at::NoGradGuard no_grad;
         p.train_step({x, y});
       }},
      {ErrorKind::kUsage,
       {"a scale of gradients is given, but there are no gradients", "Pipeline::eval_step"},
       [&](Pipeline& p) {
         p.eval_step({x, y}, {.scale = GradientScale::kSumOfMeans});
       }},
  });
  const auto nothing = [](Pipeline&) {};
  const auto refusal = [&](const RunOptions& options, PipelineOptions plan = layout("1F1B", 2)) {
    return error_of([&] { run(model, plan, nothing, options); });
  };
  expect_parts(refusal({.threads_per_rank = -3}), ErrorKind::kUsage,
               {"a rank cannot have -3 threads", "RunOptions::threads_per_rank"});
  expect_parts(refusal({.scale = {GradientScale::kDivisor, 0}}), ErrorKind::kUsage,
               {"the divisor is 0", "RunOptions::scale"});
  expect_parts(refusal({.reduction = {.per_microbatch = true}}), ErrorKind::kUsage,
               {"per_microbatch is set without a hook", "RunOptions::reduction"});
  PipelineOptions own;
  own.schedule = parse_schedule_csv("0F0,0F1,0B0,0B1,0REDUCE_GRAD\n", "own.csv");
  const auto reduce = [](int, std::optional<int>, const auto&) {};
  expect_parts(refusal({.reduction = {.reduce = reduce, .per_microbatch = true}}, own),
               ErrorKind::kUsage, {"the schedule has '0REDUCE_GRAD', but per_microbatch is on"});
  EXPECT_NO_THROW(run(model, own, [&](Pipeline& p) { p.train_step({x, y}); }));
  expect_parts(error_of([&] {
                 PipelineOptions options = layout("1F1B", 2);
                 options.trainable = {"7.*"};
                 run(model, options, nothing);
               }),
               ErrorKind::kUsage,
               {"the parameters of layer", "are not in the plan", "requires_grad"});
}

TEST_F(PipelineMisuseTest, ParametersThatAreReplacedMovedOrUnfrozen) {
  const auto step = [&](const std::function<void(torch::nn::Module&)>& spoil) {
    Model blocks{make_user_layers(UserModel::kMlp, 2, kWidth, 0.0),
                 {"x", "y"},
                 {"prediction"},
                 &squared_error,
                 [](const Values& batch) { return batch["y"].numel(); }};
    return error_of([&] {
      run(blocks, layout("1F1B", 1), [&](Pipeline& p) {
        p.train_step({x, at::sin(x)});
        for (std::size_t i = 0; i < p.stages()[0]->chunk().layers().size(); ++i)
          spoil(p.stages()[0]->chunk().module(i));
        p.train_step({x, at::sin(x)});
      });
    });
  };
  expect_parts(step([](torch::nn::Module& module) {
                 for (const auto& child : module.named_children()) {
                   if (child.key() == "norm")
                     module.replace_module(
                         "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
                 }
               }),
               ErrorKind::kUsage, {"norm.weight' was replaced", "make a new pipeline"});
  expect_parts(step([](torch::nn::Module& module) { module.to(at::kDouble); }), ErrorKind::kUsage,
               {"moved, converted or unfrozen after its stage was made"});
}

TEST_F(PipelineMisuseTest, Models) {
  expect_refused_model({"no value named 'y'"}, [](Model& m) {  // the loss reads "y"
    m.inputs = {"x", "z"};
  });
  expect_refused_model({"the model has no loss", "Model::loss"},
                       [](Model& m) { m.loss = nullptr; });
  expect_refused_model({"one number", "float32[3, 4]"}, [](Model& m) {
    m.loss = [](const Values& out, const Values&) { return LossValue{out["hidden"], 3}; };
  });
  expect_refused_model({"depends on nothing that is trained", "detach()"}, [](Model& m) {
    m.loss = mean_loss([](const Values& out, const Values& in) {
      return at::mse_loss(out["hidden"].detach(), in["y"]);
    });
  });
  expect_refused_model({"counted 7", "Model::count"}, [](Model& m) {
    m.loss = [](const Values& out, const Values&) { return LossValue{out["hidden"].sum(), 7}; };
  });
  expect_refused_model({"no layer writes 'balance'", "Model::auxiliary"},
                       [](Model& m) { m.auxiliary = {{"balance"}}; });
  expect_refused_model({"two layers write the auxiliary loss 'hidden'"},
                       [](Model& m) { m.auxiliary = {{"hidden"}}; });
  const auto writes_more = [](Model& m, std::vector<at::Tensor> (*more)(const at::Tensor&)) {
    m.layers[1].writes = {"hidden", "more"};
    m.layers[1].forward = [more](torch::nn::Module&, const std::vector<at::Tensor>& in) {
      std::vector<at::Tensor> out = {at::tanh(in[0])};
      for (const at::Tensor& tensor : more(in[0])) out.push_back(tensor);
      return out;
    };
    m.auxiliary = {{"more"}};
  };
  expect_refused_model({"'mo*' and '*re' both match 'more'"}, [&](Model& m) {
    writes_more(m, [](const at::Tensor& in) { return std::vector<at::Tensor>{in.mean()}; });
    m.auxiliary = {{"mo*"}, {"*re"}};
  });
  expect_refused_model({"'more' is read by layer '2'"}, [&](Model& m) {
    writes_more(m, [](const at::Tensor& in) { return std::vector<at::Tensor>{in.mean()}; });
    m.layers[2].reads = {"hidden", "more"};
  });
  expect_refused_model(
      {"auxiliary loss 'more' must be one floating-point number", "[3, 24]"}, [&](Model& m) {
        writes_more(m, [](const at::Tensor& in) { return std::vector<at::Tensor>{in}; });
      });
  expect_refused_model({"layer '1' returned 1 values, but declares 2"}, [&](Model& m) {
    writes_more(m, [](const at::Tensor&) { return std::vector<at::Tensor>{}; });
  });
  EXPECT_THROW(from_sequential(torch::nn::Sequential()), Error);
}

TEST_F(PipelineMisuseTest, LaunchersAndLayouts) {
  setenv("WORLD_SIZE", "2", 1);
  const Error launched = error_of([&] { run(model, layout("1F1B", 2), [](Pipeline&) {}); });
  unsetenv("WORLD_SIZE");
  expect_parts(launched, ErrorKind::kUsage, {"RANK is not set", "in every process, or none"});
  expect_parts(error_of([&] { run(model, layout("1F1B", 9), [](Pipeline&) {}); }),
               ErrorKind::kUsage, {"9", "8"});
  expect_parts(error_of([&] { layout("1F1", 2); }), ErrorKind::kUsage, {"'1F1'", "'1F1B'"});
}

TEST_F(PipelineMisuseTest, ARankThatDoesNotComeWithinTheDeadline) {
  std::atomic<bool> ended = false;
  const auto body = [&](Pipeline& p) {
    if (p.rank() == 1) {
      for (int i = 0; i < 300 && !ended; ++i) std::this_thread::sleep_for(100ms);
      return;
    }
    try {
      p.train_step({x, y});
    } catch (...) {
      ended = true;
      throw;
    }
  };
  expect_parts(error_of([&] { run(model, layout("1F1B", 2), body, {.deadline = 3s}); }),
               ErrorKind::kPeer, {"rank 1"});
}

}  // namespace
}  // namespace sluice::test::pipeline_misuse_test
