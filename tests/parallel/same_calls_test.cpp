// Ranks that share layers must make the same calls. If not, every member must throw one error that
// names both calls and both ranks. It must neither hang nor compute wrong numbers.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "parallel/held_group.h"
#include "parallel/tree_exchange.h"
#include "sluice/parts/tensor_parallel.h"
#include "sluice/pipeline.h"
#include "support/expect_error.h"

namespace sluice::test::same_calls_test {
namespace {

constexpr std::int64_t kWidth = 8, kInner = 16, kLength = 4;

enum class Wrong {
  kNothing,
  kSkipsAForward,
  kSkipsTheLastForward,
  kSwapsTwo,
  kSkipsABackward,
  kSkipsTheLastBackward,
  kOtherType,
  kOtherRows,
};

// Returns x and sums its gradient over ranks. With `skips`, a rank omits its sum.
struct Added : torch::autograd::Function<Added> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const SliceGroup& tp, bool skips) {
    detail::hold(context, tp);
    context->saved_data["skips"] = skips;
    return x.alias();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const SliceGroup tp = detail::held(context);
    return {context->saved_data["skips"].toBool() ? gradients[0]
                                                  : detail::tree_all_reduce(gradients[0], tp),
            {},
            {}};
  }
};

// Two projections with one sum each. The second rank deviates as `other` describes.
struct Block : torch::nn::Module {
  explicit Block(Wrong other)
      : tp(SliceGroup::current()),
        wrong(tp.group() && tp.group().rank() == 1 ? other : Wrong::kNothing),
        up(kWidth, kInner, tp, ColumnParallelOptions{.gather_output = false}),
        down(kInner, kWidth, tp, RowParallelOptions{.input_is_parallel = true}) {
    gain = register_parameter("gain", at::ones({kWidth}));
    register_module("up", up);
    register_module("down", down);
  }

  at::Tensor forward(const at::Tensor& x, bool is_last) {
    at::Tensor y = Added::apply(x * gain, tp,
                                (wrong == Wrong::kSkipsABackward && is_last) ||
                                    (wrong == Wrong::kSkipsTheLastBackward && !is_last));
    if (wrong == Wrong::kOtherType) y = y.to(at::kDouble);
    if (wrong == Wrong::kOtherRows) y = y.slice(1, 1);
    const auto gathered = [&] { return detail::all_gather(y.detach(), 1, tp).sum() * 1e-3; };
    const auto summed = [&] { return detail::tree_all_reduce(y.detach(), tp).sum() * 1e-3; };
    at::Tensor more;
    if (wrong == Wrong::kSwapsTwo) {
      more = summed();
      more = more + gathered();
    } else {
      more = gathered();
      more = more + summed();
    }
    if (wrong == Wrong::kSkipsAForward || (wrong == Wrong::kSkipsTheLastForward && is_last))
      return y + more;
    return y + down(torch::tanh(up(y))) + more;
  }

  SliceGroup tp;
  Wrong wrong;
  at::Tensor gain;
  ColumnParallelLinear up;
  RowParallelLinear down;
};

Model two_blocks(Wrong wrong) {
  Model model;
  for (const bool is_last : {false, true}) {
    model.layers.push_back(layer(
        is_last ? "blocks.1" : "blocks.0", {is_last ? "hidden" : "x"}, {"hidden"},
        [wrong] { return std::make_shared<Block>(wrong); },
        [is_last](Block& block, const Values& in) {
          return block.forward(in[is_last ? "hidden" : "x"], is_last);
        }));
  }
  model.inputs = {"x"};
  model.outputs = {"hidden"};
  model.count = [](const Values& batch) { return batch.get("x").size(0); };
  model.loss = mean_loss(
      [](const Values& out, const Values& /*in*/) { return out["hidden"].square().mean(); });
  return model;
}

std::vector<std::string> errors_of(Wrong wrong, int microbatches = 2, int pp = 1) {
  PipelineOptions options;
  options.num_ranks = pp;
  options.num_microbatches = microbatches;
  options.tensor_parallel = {.degree = 2, .slices = 2, .sequence = false};
  std::vector<std::string> errors(static_cast<std::size_t>(2 * pp));
  std::mutex mutex;
  RunOptions run_options;
  run_options.deadline = std::chrono::seconds(30);
  const auto start = std::chrono::steady_clock::now();
  const auto body = [&](Pipeline& pipeline) {
    try {
      at::Tensor x = at::sin(at::arange(2 * microbatches * kLength * kWidth, at::kFloat));
      pipeline.train_step({{"x", x.view({-1, kLength, kWidth})}});
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      errors[static_cast<std::size_t>(pipeline.rank())] = error.what();
      throw;
    }
  };
  try {
    run(two_blocks(wrong), options, body, run_options);
  } catch (const Error&) {
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 30) << "a wait ended by its deadline";
  return errors;
}

void expect_named(Wrong wrong, const std::vector<std::string>& parts, int microbatches = 2) {
  for (const std::string& error : errors_of(wrong, microbatches))
    for (const std::string& part : parts)
      EXPECT_NE(error.find(part), std::string::npos) << "no '" << part << "' in '" << error << "'";
}

TEST(SameCallsTest, RanksThatMakeTheSameCallsHaveNoError) {
  EXPECT_EQ(errors_of(Wrong::kNothing), std::vector<std::string>(2));
  EXPECT_EQ(errors_of(Wrong::kNothing, 2, 2), std::vector<std::string>(4));
}

TEST(SameCallsTest, ACallThatOneLeavesOutIsNamedWithTheNextOfIt) {
  expect_named(Wrong::kSkipsAForward,
               {"the members of a group make different calls: 0F0 blocks.0.down ",
                " over tp: all_reduce of float32[2, 4, 8] in a tree on rank 0, but 0F0 blocks.1 ",
                " on rank 1; rank ", ", group of ranks 0, 1; "});
}

TEST(SameCallsTest, TwoThatAreSwappedAreNamed) {
  expect_named(Wrong::kSwapsTwo, {" over tp: all_gather of tensors on rank 0, but 0F0 blocks.0 ",
                                  " over tp: all_reduce of float32[2, 4, 8] in a tree on rank 1"});
}

TEST(SameCallsTest, ACallOfABackwardNamesTheForwardThatItBelongsTo) {
  expect_named(Wrong::kSkipsABackward,
               {"0B0 backward of blocks.1 (1) over tp: all_reduce of float32[2, 4, 8] in a tree on "
                "rank 0, but 0B0 backward of blocks.0.up (",
                " on rank 1"});
}

// One rank waits in its layer while the other waits at the end of the step.
TEST(SameCallsTest, TheLastCallOfAStepIsMissedAtItsEnd) {
  expect_named(Wrong::kSkipsTheLastBackward,
               {"0B0 backward of blocks.0 (1) over tp: all_reduce of float32[2, 4, 8] in a tree on "
                "rank 0, but the end of the step's layers: barrier on rank 1"},
               1);
}

TEST(SameCallsTest, RanksOfAnotherStageEndWithTheSameError) {
  const std::vector<std::string> errors = errors_of(Wrong::kSkipsTheLastBackward, 1, 2);
  ASSERT_EQ(errors.size(), 4U);
  for (const std::string& error : errors) EXPECT_EQ(error, errors.front());
  EXPECT_NE(errors.front().find("but the end of the step's layers: barrier on rank "),
            std::string::npos)
      << errors.front();
}

TEST(SameCallsTest, OtherTypesAndSizesOfWhatIsGatheredAreNamed) {
  for (const Wrong wrong : {Wrong::kOtherType, Wrong::kOtherRows}) {
    const char* const other =
        wrong == Wrong::kOtherType ? "float64[2, 4, 8] on rank 1" : "float32[2, 3, 8] on rank 1";
    expect_named(wrong, {"parts of ranks do not fit together along dimension 1: float32[2, 4, 8] "
                         "on rank 0, ",
                         other});
  }
}

}  // namespace
}  // namespace sluice::test::same_calls_test
