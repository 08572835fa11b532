#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>

#include "sluice/checkpoint.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"
#include "train/pipeline_support.h"

namespace sluice::test::pipeline_checkpoint_test {
namespace {

using MakeOptimizer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

template <typename Class, typename Options>
MakeOptimizer maker(const Options& options) {
  return [options](std::vector<at::Tensor> parameters) {
    return std::make_unique<Class>(std::move(parameters), options);
  };
}

const MakeOptimizer kAdamW =
    maker<torch::optim::AdamW>(torch::optim::AdamWOptions(1e-2).amsgrad(true));

struct Trained {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> weights;
};

bool same_bits(const Trained& a, const Trained& b) {
  if (a.losses != b.losses || a.weights.size() != b.weights.size()) return false;
  for (const auto& [name, tensor] : a.weights)
    if (!at::equal(tensor, b.weights.at(name))) return false;
  return true;
}

Model model() {
  torch::nn::Sequential net = make_net(0.2);
  net->push_back(torch::nn::BatchNorm1d(4));
  return model_of(net);
}

struct Part {
  int first = 1, last = 6;
  std::string from = {}, to = {};
  PipelineOptions options = layout("1F1B", 1);
};

Trained train(const Part& part, const MakeOptimizer& make = kAdamW,
              const std::function<Model()>& make_model = model) {
  Trained result;
  std::mutex mutex;
  run(make_model(), part.options, [&](Pipeline& pipeline) {
    const auto optimizer = make(pipeline.parameters());
    if (!part.from.empty()) {
      const LoadedState loaded = pipeline.load(part.from, {.optimizers = {optimizer.get()}});
      EXPECT_EQ(loaded.step, part.first - 1);
    }
    for (int step = part.first; step <= part.last; ++step) {
      const at::Tensor x = inputs_of(step);
      const StepResult report = pipeline.train_step({{"x", x}, {"y", targets_of(x)}});
      pipeline.clip_grad_norm(1.0);
      optimizer->step();
      optimizer->zero_grad();
      if (pipeline.rank() == 0) result.losses.push_back(report.loss);
    }
    if (!part.to.empty()) pipeline.save(part.to, {.optimizers = {optimizer.get()}});
    const std::lock_guard lock(mutex);
    for (const auto& [name, tensor] : pipeline.local_state_dict())
      result.weights.emplace(name, tensor.clone());
  });
  return result;
}

TEST(PipelineCheckpointTest, AnotherLayoutGoesOnWithTheSameBits) {
  const TempDirectory folder;
  const Trained whole = train({});
  Trained parts = train({.last = 2, .to = folder / "a", .options = layout("GPipe", 4)});
  for (const Part& part : {Part{3, 4, folder / "a", folder / "b", layout("ZBVZeroBubble", 2)},
                           // replaces "a"
                           Part{5, 5, folder / "b", folder / "a", layout("Interleaved1F1B", 3)},
                           Part{6, 6, folder / "a", "", layout("1F1B", 1)}}) {
    Trained next = train(part);
    next.losses.insert(next.losses.begin(), parts.losses.begin(), parts.losses.end());
    parts = std::move(next);
  }
  EXPECT_TRUE(same_bits(whole, parts));
  EXPECT_EQ(list_directory(folder.str()), (std::set<std::string>{"a", "b"}));
}

TEST(PipelineCheckpointTest, EveryKindOfOptimizerGoesOnWithTheSameBits) {
  const std::vector<std::pair<std::string, MakeOptimizer>> optimizers = {
      {"Adam", maker<torch::optim::Adam>(torch::optim::AdamOptions(1e-2))},
      {"SGD", maker<torch::optim::SGD>(torch::optim::SGDOptions(1e-2).momentum(0.9))},
      {"plain SGD", maker<torch::optim::SGD>(torch::optim::SGDOptions(1e-2))},
      {"RMSprop", maker<torch::optim::RMSprop>(
                      torch::optim::RMSpropOptions(1e-3).momentum(0.5).centered(true))},
      {"Adagrad", maker<torch::optim::Adagrad>(torch::optim::AdagradOptions(1e-2))}};
  for (const auto& [name, make] : optimizers) {
    const TempDirectory folder;
    const Trained whole = train({.last = 4, .options = layout("1F1B", 2)}, make);
    Trained parts = train({.last = 2, .to = folder / "ck", .options = layout("1F1B", 2)}, make);
    Trained rest = train({3, 4, folder / "ck", "", layout("GPipe", 3)}, make);
    rest.losses.insert(rest.losses.begin(), parts.losses.begin(), parts.losses.end());
    EXPECT_TRUE(same_bits(whole, rest)) << name;
  }
}

TEST(PipelineCheckpointTest, ExtraStateComesBackOnEveryRank) {
  const TempDirectory folder;
  const at::Tensor order = at::arange(5);
  run(model(), layout("1F1B", 2), [&](Pipeline& pipeline) {
    pipeline.save(folder / "ck", {.extra = {{"epoch", "3"}, {"name", "\u00fc"}},
                                  .extra_tensors = {{"order", order}}});
  });
  run(model(), layout("GPipe", 4), [&](Pipeline& pipeline) {
    const LoadedState loaded = pipeline.load(folder / "ck");
    EXPECT_EQ(loaded.step, 0);
    EXPECT_EQ(loaded.extra,
              (std::map<std::string, std::string>{{"epoch", "3"}, {"name", "\u00fc"}}));
    ASSERT_EQ(loaded.extra_tensors.size(), 1u);
    EXPECT_EQ(loaded.extra_tensors[0].first, "order");
    EXPECT_TRUE(at::equal(loaded.extra_tensors[0].second, order));
  });
}

TEST(PipelineCheckpointTest, ASaveThatFailsIsAnErrorOnEveryRankAndThePipelineGoesOn) {
  const TempDirectory folder;
  write_file(folder / "file", "");
  run(model(), layout("1F1B", 2), [&](Pipeline& pipeline) {
    const Error error = error_of([&] { pipeline.save(folder / "file/ck"); });
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    const at::Tensor x = inputs_of(1);
    pipeline.train_step({{"x", x}, {"y", targets_of(x)}});
    pipeline.save(folder / "ck");
  });
  Checkpoint(folder / "ck").verify();
}

Error error_of_run(const std::function<void(Pipeline&)>& body,
                   const std::function<Model()>& make_model = model) {
  return error_of([&] { run(make_model(), layout("1F1B", 2), body); });
}

TEST(PipelineCheckpointTest, WhatDoesNotBelongTogetherIsRefused) {
  const TempDirectory folder;
  run(model(), layout("1F1B", 2), [&](Pipeline& pipeline) {
    const auto optimizer = kAdamW(pipeline.parameters());
    const at::Tensor x = inputs_of(1);
    pipeline.train_step({{"x", x}, {"y", targets_of(x)}});
    optimizer->step();
    pipeline.save(folder / "adamw", {.optimizers = {optimizer.get()}});
    pipeline.save(folder / "bare");
  });
  const auto load_with = [&](const std::string& name, const MakeOptimizer& make) {
    return error_of_run([&](Pipeline& pipeline) {
      const auto optimizer = make(pipeline.parameters());
      pipeline.load(folder / name, {.optimizers = {optimizer.get()}});
    });
  };
  const MakeOptimizer sgd = maker<torch::optim::SGD>(torch::optim::SGDOptions(1e-2));
  const Error other = load_with("adamw", sgd);
  EXPECT_EQ(other.kind(), ErrorKind::kCheckpoint);
  EXPECT_NE(std::string(other.what()).find("has the state of AdamW, not of SGD"), std::string::npos)
      << other.what();
  EXPECT_NE(std::string(load_with("bare", sgd).what()).find("saved without an optimizer"),
            std::string::npos);

  const auto load = [&](Pipeline& pipeline) { pipeline.load(folder / "bare"); };
  const Error fewer = error_of_run(load, [] { return model_of(make_net()); });
  EXPECT_EQ(fewer.kind(), ErrorKind::kCheckpoint);
  EXPECT_NE(std::string(fewer.what()).find("the model has no '8."), std::string::npos)
      << fewer.what();
  const Error missing = error_of_run([&](Pipeline& pipeline) { pipeline.load(folder / "bear"); });
  EXPECT_EQ(missing.kind(), ErrorKind::kCheckpoint);
  EXPECT_NE(std::string(missing.what()).find("bare"), std::string::npos) << missing.what();

  const auto save = [&](const std::function<SaveOptions(Pipeline&)>& options) {
    return error_of_run(
        [&](Pipeline& pipeline) { pipeline.save(folder / "no", options(pipeline)); });
  };
  for (const Error& error :
       {save([](Pipeline& pipeline) {
          return SaveOptions{.extra = {{"rank", std::to_string(pipeline.rank())}}};
        }),
        save([](Pipeline&) {
          return SaveOptions{.extra = {{"bytes", "\xff"}}};
        }),
        save([](Pipeline&) {
          return SaveOptions{.extra_tensors = {{"a", at::Tensor()}}};
        }),
        save([](Pipeline&) {
          return SaveOptions{.extra_tensors = {{"a", at::ones(1)}, {"a", at::ones(1)}}};
        })}) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
  }
  EXPECT_EQ(error_of_run([&](Pipeline& pipeline) {
              torch::optim::LBFGS optimizer(pipeline.parameters());
              pipeline.save(folder / "no", {.optimizers = {&optimizer}});
            }).kind(),
            ErrorKind::kUsage);
  EXPECT_EQ(list_directory(folder.str()), (std::set<std::string>{"adamw", "bare"}));
}

using Optimizers = std::vector<std::unique_ptr<torch::optim::Optimizer>>;
using MakeOptimizers = std::function<Optimizers(const Pipeline&)>;

const MakeOptimizer kSgd = maker<torch::optim::SGD>(torch::optim::SGDOptions(1e-2).momentum(0.9));

// A rank may have no parameters for the second optimizer.
MakeOptimizers by_shape(const MakeOptimizer& of_matrices, const MakeOptimizer& of_others) {
  return [=](const Pipeline& pipeline) {
    std::vector<at::Tensor> matrices, others;
    for (const at::Tensor& parameter : pipeline.parameters())
      (parameter.dim() > 1 ? matrices : others).push_back(parameter);
    Optimizers both;
    both.push_back(of_matrices(matrices));
    both.push_back(of_others(others));
    return both;
  };
}

template <typename Pointer>
std::vector<Pointer> pointers(const Optimizers& optimizers) {
  std::vector<Pointer> all;
  for (const auto& optimizer : optimizers) all.push_back(optimizer.get());
  return all;
}

Trained train_by(const MakeOptimizers& make, const Part& part) {
  Trained result;
  std::mutex mutex;
  run(model(), part.options, [&](Pipeline& pipeline) {
    const Optimizers optimizers = make(pipeline);
    if (!part.from.empty())
      pipeline.load(part.from, {.optimizers = pointers<torch::optim::Optimizer*>(optimizers)});
    for (int step = part.first; step <= part.last; ++step) {
      const at::Tensor x = inputs_of(step);
      pipeline.train_step({{"x", x}, {"y", targets_of(x)}});
      for (const auto& optimizer : optimizers) {
        optimizer->step();
        optimizer->zero_grad();
      }
    }
    if (!part.to.empty())
      pipeline.save(part.to, {.optimizers = pointers<const torch::optim::Optimizer*>(optimizers)});
    const std::lock_guard lock(mutex);
    for (const auto& [name, tensor] : pipeline.local_state_dict())
      result.weights.emplace(name, tensor.clone());
  });
  return result;
}

TEST(PipelineCheckpointTest, SeveralOptimizersGoOnWithTheSameBits) {
  const TempDirectory folder;
  const MakeOptimizers two_kinds = by_shape(kAdamW, kSgd), one_kind = by_shape(kAdamW, kAdamW);
  for (const MakeOptimizers& make : {two_kinds, one_kind}) {
    const Trained whole = train_by(make, {.last = 4});
    train_by(make, {.last = 2, .to = folder / "ck", .options = layout("GPipe", 4)});
    EXPECT_TRUE(
        same_bits(whole, train_by(make, {3, 4, folder / "ck", "", layout("ZBVZeroBubble", 2)})));
  }
  // Several optimizers of one kind are saved like a single one.
  EXPECT_EQ(Checkpoint(folder / "ck").manifest().settings.at("optimizer"), "AdamW");
  const MakeOptimizers one = [](const Pipeline& pipeline) {
    Optimizers optimizers;
    optimizers.push_back(kAdamW(pipeline.parameters()));
    return optimizers;
  };
  EXPECT_TRUE(same_bits(train_by(one, {3, 4, folder / "ck", "", layout("1F1B", 2)}),
                        train_by(one_kind, {3, 4, folder / "ck", "", layout("1F1B", 1)})));
}

TEST(PipelineCheckpointTest, SeveralOptimizersThatDoNotFitAreRefused) {
  const TempDirectory folder;
  train_by(by_shape(kAdamW, kSgd), {.last = 1, .to = folder / "ck"});
  const auto refused = [&](const MakeOptimizers& make) {
    const Error error = error_of([&] { train_by(make, {2, 2, folder / "ck"}); });
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    return std::string(error.what());
  };
  EXPECT_NE(refused(by_shape(kAdamW, kAdamW)).find("the state of AdamW, SGD, not of AdamW"),
            std::string::npos);
  // The kinds keep their order but swap parameters.
  const MakeOptimizers swapped = [](const Pipeline& pipeline) {
    Optimizers both = by_shape(kSgd, kAdamW)(pipeline);
    std::swap(both[0], both[1]);
    return both;
  };
  EXPECT_NE(refused(swapped).find("is not a state of AdamW: the parameter had another optimizer"),
            std::string::npos);

  const auto save_refused = [&](const std::vector<std::size_t>& which) {
    const Error error = error_of_run([&](Pipeline& pipeline) {
      Optimizers optimizers;
      optimizers.push_back(kAdamW(pipeline.parameters()));
      optimizers.push_back(kSgd({pipeline.parameters().back()}));
      optimizers.push_back(nullptr);
      std::vector<const torch::optim::Optimizer*> given;
      for (const std::size_t i : which) given.push_back(optimizers[i].get());
      pipeline.save(folder / "no", {.optimizers = given});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return std::string(error.what());
  };
  EXPECT_NE(save_refused({0, 1}).find("' is in two optimizers"), std::string::npos);
  EXPECT_NE(save_refused({0, 2}).find("an optimizer is null"), std::string::npos);
}

TEST(PipelineCheckpointTest, TensorsOfARankComeBackToTheRankOfTheSameNumber) {
  const TempDirectory folder;
  run(model(), layout("1F1B", 2), [&](Pipeline& pipeline) {
    SaveOptions options;
    options.extra_tensors = {{"order", at::arange(5)}};
    options.rank_tensors = {{"state of a/generator", at::full({2}, pipeline.rank())}};
    if (pipeline.rank() == 1) options.rank_tensors.emplace_back("seen", at::ones(3));
    pipeline.save(folder / "ck", options);
    options.rank_tensors.clear();
    pipeline.save(folder / "without", options);
  });
  Checkpoint(folder / "ck").verify();
  run(model(), layout("GPipe", 2), [&](Pipeline& pipeline) {
    const LoadedState loaded = pipeline.load(folder / "ck", {.rank_tensors = true});
    ASSERT_EQ(loaded.extra_tensors.size(), 1U);
    ASSERT_EQ(loaded.rank_tensors.size(), pipeline.rank() == 1 ? 2U : 1U);
    const std::map<std::string, at::Tensor> own(loaded.rank_tensors.begin(),
                                                loaded.rank_tensors.end());
    EXPECT_TRUE(at::equal(own.at("state of a/generator"), at::full({2}, pipeline.rank())));
    EXPECT_EQ(own.contains("seen"), pipeline.rank() == 1);
  });
  run(model(), layout("GPipe", 4), [&](Pipeline& pipeline) {
    const LoadedState loaded = pipeline.load(folder / "ck");  // without requesting rank tensors
    EXPECT_EQ(loaded.extra_tensors.size(), 1U);
    EXPECT_TRUE(loaded.rank_tensors.empty());
  });
  const auto refused = [&](const char* name, int ranks) {
    const Error error = error_of([&] {
      run(model(), layout("GPipe", ranks),
          [&](Pipeline& pipeline) { pipeline.load(folder / name, {.rank_tensors = true}); });
    });
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    return std::string(error.what());
  };
  EXPECT_NE(
      refused("ck", 4).find(
          "the rank_tensors 'seen', 'state of a/generator' are of 2 ranks, but this run has 4"),
      std::string::npos);
  EXPECT_NE(refused("without", 2).find("without rank_tensors"), std::string::npos);
  const Error named = error_of_run([&](Pipeline& pipeline) {
    pipeline.save(folder / "no", {.extra_tensors = {{"ranks/0/x", at::ones(1)}}});
  });
  EXPECT_EQ(named.kind(), ErrorKind::kUsage) << named.what();
}

TEST(PipelineCheckpointTest, ADamagedTensorIsFoundByTheRankThatReadsIt) {
  for (const char* file : {"model", "optimizer/state", "extra/state"}) {
    const TempDirectory folder;
    run(model(), layout("1F1B", 1), [&](Pipeline& pipeline) {
      const auto optimizer = kAdamW(pipeline.parameters());
      const at::Tensor x = inputs_of(1);
      pipeline.train_step({{"x", x}, {"y", targets_of(x)}});
      optimizer->step();
      pipeline.save(folder / "ck",
                    {.optimizers = {optimizer.get()}, .extra_tensors = {{"mine", at::arange(4)}}});
    });
    const std::string path = folder / ("ck/" + std::string(file) + ".safetensors");
    std::string bytes = read_file(path);
    bytes.back() ^= 1;
    write_file(path, bytes);
    const Error error = error_of_run([&](Pipeline& pipeline) {
      const auto optimizer = kAdamW(pipeline.parameters());
      pipeline.load(folder / "ck", {.optimizers = {optimizer.get()}});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_NE(std::string(error.what()).find("is not what was saved"), std::string::npos)
        << error.what();
  }
}

TEST(PipelineCheckpointTest, AFrozenParameterHasNoStateAndBeginsAnewWhenItTrains) {
  const TempDirectory folder;
  const auto frozen = [] {
    torch::nn::Sequential net = make_net();
    for (at::Tensor& parameter : net->ptr(0)->parameters()) parameter.set_requires_grad(false);
    return model_of(net);
  };
  train({.last = 2, .to = folder / "ck", .options = layout("1F1B", 2)}, kAdamW, frozen);
  const Checkpoint saved(folder / "ck");
  EXPECT_TRUE(saved.find(SavedKind::kWeights, "0.weight"));
  EXPECT_FALSE(saved.find(SavedKind::kOptimizer, "exp_avg/0.weight"));
  const Trained two = train({3, 4, folder / "ck", "", layout("1F1B", 2)}, kAdamW,
                            [] { return model_of(make_net()); });
  const Trained one = train({3, 4, folder / "ck", "", layout("1F1B", 1)}, kAdamW,
                            [] { return model_of(make_net()); });
  EXPECT_TRUE(same_bits(one, two));
}

}  // namespace
}  // namespace sluice::test::pipeline_checkpoint_test
