#include "train/step_norm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "engine/executor.h"
#include "engine/rank_threads.h"
#include "optim/gradient_norm.h"
#include "support/expect_error.h"

namespace sluice::test::step_norm_test {
namespace {

LayerSpec linear(const std::string& name) {
  LayerSpec layer;
  layer.name = name;
  layer.make = [] { return torch::nn::Linear(torch::nn::LinearOptions(2, 2).bias(false)).ptr(); };
  layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{module.as<torch::nn::Linear>()->forward(in[0])};
  };
  return layer;
}

// "a" has gradients of 2 and "b" of 3 on both ranks.
std::vector<GradientNorms> norms_of_replicas(
    const std::function<void(std::vector<ParameterInfo>&)>& change) {
  const auto transports = make_local_transports(2);
  std::vector<GradientNorms> norms(2);
  run_ranks(transports, 1, nullptr, [&](Transport& transport) {
    Stage stage(0, Chunk({linear("a"), linear("b")}, 0, {"hidden"}, {"hidden"}));
    change(stage.parameters());
    stage.gradient(0) = at::full({2, 2}, 2.0);
    stage.gradient(1) = at::full({2, 2}, 3.0);
    const std::vector<SharedParameter> parameters =
        list_parameters({&stage}, transport.world(), Mesh({.dp_replicate = 2}));
    // In this mesh the first rank counts replicated parameters.
    const Mesh mesh({.pp = 2});
    norms[transport.rank()] =
        post_gradient_norms(parameters, make_run_groups(transport.world(), mesh), mesh,
                            [](const ParameterUse& use) { return use.gradient(); })
            .wait();
  });
  return norms;
}

TEST(StepNormTest, AParameterCountsOnceForAllRanksOverWhichItIsReplicated) {
  const auto all = norms_of_replicas([](std::vector<ParameterInfo>& parameters) {
    for (ParameterInfo& info : parameters) info.replicated = {Axis::kDpReplicate};
  });
  for (const GradientNorms& norms : all) {
    EXPECT_EQ(norms.of_parameters,
              (std::vector<std::pair<std::string, double>>{{"a.weight", 4.0}, {"b.weight", 6.0}}));
    EXPECT_DOUBLE_EQ(norms.total, std::sqrt(16.0 + 36.0));
  }
}

TEST(StepNormTest, EarlyPartialNormsGiveTheSameBits) {
  const auto transports = make_local_transports(1);
  run_ranks(transports, 1, nullptr, [&](Transport& transport) {
    Stage first(0, Chunk({linear("a"), linear("b")}, 0, {"hidden"}, {"hidden"}));
    Stage second(1, Chunk({linear("c")}, 2, {"hidden"}, {"hidden"}));
    first.gradient(0) = at::full({2, 2}, 0.1);
    first.gradient(1) = at::full({2, 2}, 0.3);
    second.gradient(0) = at::full({2, 2}, 0.7);
    const Mesh mesh({.pp = 1});
    const RunGroups groups = make_run_groups(transport.world(), mesh);
    const std::vector<SharedParameter> parameters =
        list_parameters({&first, &second}, groups.pipeline, mesh);
    const BlockOwners owners({&first, &second}, 1);
    for (const BlockOwners* by : {static_cast<const BlockOwners*>(nullptr), &owners}) {
      StepNorms norms(parameters, by, groups, mesh);
      const GradientNorms expected = norms.post().wait();
      EXPECT_NEAR(expected.total, 2 * std::sqrt(0.01 + 0.09 + 0.49), 1e-6);  // float precision
      const auto all = [](const SharedParameter&) { return true; };
      const auto none = [](const SharedParameter&) { return false; };
      EXPECT_FALSE(norms.of_stage(1, none));
      EXPECT_FALSE(norms.of_stage(2, all));
      IdleWork pieces = norms.of_stage(0, all);
      EXPECT_TRUE(pieces());
      first.gradient(0) = at::zeros({2, 2});  // the norm was already computed
      EXPECT_FALSE(pieces());
      const GradientNorms early = norms.post().wait();
      EXPECT_EQ(early.total, expected.total);
      EXPECT_EQ(early.of_parameters, expected.of_parameters);
      EXPECT_EQ(norms.post().wait().of_parameters.front().second, 0.0);
      first.gradient(0) = at::full({2, 2}, 0.1);
    }
  });
}

TEST(StepNormTest, ALargeGradientIsTakenInPiecesAndGivesTheSameBits) {
  const auto transports = make_local_transports(1);
  run_ranks(transports, 1, nullptr, [&](Transport& transport) {
    Stage stage(0, Chunk({linear("a")}, 0, {"hidden"}, {"hidden"}));
    stage.gradient(0) = at::randn({3, 1'000'001});
    const Mesh mesh({.pp = 1});
    const RunGroups groups = make_run_groups(transport.world(), mesh);
    const std::vector<SharedParameter> parameters =
        list_parameters({&stage}, groups.pipeline, mesh);
    StepNorms norms(parameters, nullptr, groups, mesh);
    const GradientNorms expected = norms.post().wait();
    EXPECT_EQ(expected.total, tensor_norm(stage.gradient(0)));
    IdleWork piece = norms.of_stage(0, [](const SharedParameter&) { return true; });
    int pieces = 1;
    while (piece()) ++pieces;
    EXPECT_EQ(pieces, 3);
    EXPECT_EQ(norms.post().wait().total, expected.total);
  });
}

TEST(StepNormTest, AParameterOnTwoRanksThatIsNotReplicatedIsRefused) {
  const Error error = error_of([] { norms_of_replicas([](std::vector<ParameterInfo>&) {}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInternal);
  EXPECT_NE(std::string(error.what()).find("is on more than one stage"), std::string::npos);
}

TEST(StepNormTest, UsesOfOtherSlicesAreRefused) {
  const Error error = error_of([] {
    norms_of_replicas([](std::vector<ParameterInfo>& parameters) {
      for (ParameterInfo& info : parameters) info.replicated = {Axis::kDpReplicate};
      parameters[1].tied_to = "a.weight";
      parameters[1].split = {{.dim = 0}};
      parameters[1].slices = {1, 2, 2};
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_NE(std::string(error.what()).find("'a.weight' do not have the same slices"),
            std::string::npos)
      << error.what();
}

}  // namespace
}  // namespace sluice::test::step_norm_test
