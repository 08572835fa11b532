// Unusual but legal user models. Every schedule must give the same bits as one plain loop.
#include <gtest/gtest.h>

#include "sluice/schedule.h"
#include "support/awkward_models.h"

namespace sluice::test {
namespace {

struct Layout {
  const char* schedule;
  int ranks, stages_per_rank, microbatches;
};

constexpr Layout kLayouts[] = {{"GPipe", 1, 1, 3},
                               {"GPipe", 4, 1, 1},
                               {"1F1B", 2, 1, 4},
                               {"GPipe", 8, 1, 3},
                               {"Interleaved1F1B", 2, 2, 4},
                               {"LoopedBFS", 2, 2, 4},
                               {"InterleavedZeroBubble", 2, 2, 4},
                               {"InterleavedZeroBubble", 1, 3, 2},
                               {"ZBVZeroBubble", 2, 2, 4},
                               {"ZBVZeroBubble", 4, 2, 8},
                               {"ZBVZeroBubble", 1, 2, 4},
                               {"DualPipeV", 2, 2, 4}};

std::vector<int> backward_order(const Layout& layout) {
  std::vector<int> order;
  for (int m = 0; m < layout.microbatches; ++m) order.push_back(m);
  if (std::string(layout.schedule) == "LoopedBFS") std::reverse(order.begin(), order.end());
  return order;
}

TEST(AwkwardModelsTest, TrainWithTheBitsOfOneLoopInEverySchedule) {
  for (const AwkwardModel& awkward : awkward_models()) {
    for (const Layout& layout : kLayouts) {
      const std::string where = awkward.name + ": " + layout.schedule + " on " +
                                std::to_string(layout.ranks) + " ranks, " +
                                std::to_string(layout.stages_per_rank) + " stages a rank";
      const auto steps = user_batches(3, layout.microbatches, {3, 2, 4, 5});
      const HarnessOptions options;
      const TrainedModel expected =
          train_in_one_loop(awkward.model, steps, options, backward_order(layout));
      const Program program = lowered(make_schedule(
          layout.schedule, {layout.ranks, layout.stages_per_rank, layout.microbatches}));
      const TrainedModel got = train_in_pipeline(awkward.model, program, steps, options);
      std::string errors;
      for (const std::string& error : got.errors) errors += error;
      EXPECT_EQ(errors, "") << where;
      EXPECT_TRUE(same_bits(got, expected)) << where;
    }
  }
}

TEST(AwkwardModelsTest, ABatchMayLackAnOptionalValue) {
  Model model = with_layers(
      5, {workshop("layer5", {"hidden", "mask"}, {"hidden"}, [](Workshop& m, const Tensors& in) {
        const at::Tensor y = m.linear(in[0]);
        return Tensors{in[1].defined() ? y * in[1] : y};
      })});
  model.inputs.push_back("mask");
  auto steps = user_batches(2, 4, {3});
  for (StepBatch& step : steps) {
    MicrobatchList microbatches;
    for (std::size_t m = 0; m < 4; ++m) {
      Values batch = step.microbatches.at(m);
      batch.set("mask", m % 2 ? at::Tensor() : at::full({3, 16}, 0.5));
      microbatches.push_back(std::move(batch));
    }
    step.microbatches = std::move(microbatches);
  }
  const TrainedModel expected = train_in_one_loop(model, steps, {});
  const auto got = train_in_pipeline(model, lowered(make_schedule("1F1B", {4, 1, 4})), steps, {});
  for (const std::string& error : got.errors) EXPECT_EQ(error, "");
  EXPECT_TRUE(same_bits(got, expected));
}

// tanh saves its output, and the next layer overwrites that output. Autograd reports this within
// one stage. With a cut between the two layers the gradients must not be wrong silently.
TEST(AwkwardModelsTest, AWriteToWhatAnotherStageSavedIsRefusedAsWithoutTheCut) {
  const Model model = with_layers(
      4, {workshop("layer4", {"hidden"}, {"hidden"}, [](Workshop& m, const Tensors& in) {
        at::Tensor x = in[0];
        return Tensors{m.linear(x.mul_(2))};
      })});
  for (const int ranks : {1, 2, 4}) {
    const auto got = train_in_pipeline(model, lowered(make_schedule("1F1B", {ranks, 1, 4})),
                                       user_batches(1, 4, {3}), {});
    for (const std::string& error : got.errors)
      EXPECT_NE(error.find("modified by an inplace operation"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace sluice::test
