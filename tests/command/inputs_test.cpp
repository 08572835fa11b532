#include "command/inputs.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(RunOptionsTest, AreThoseOfTheConfiguration) {
  const RunOptions options = run_options(load_run_config("",
                                                         {{"training.seed", "7"},
                                                          {"parallelism.scale_grads", "4"},
                                                          {"training.mixed_precision", "bfloat16"}},
                                                         {}));
  EXPECT_EQ(options.seed, 7u);
  EXPECT_EQ(options.scale, GradientScale(GradientScale::kDivisor, 4.0));
  EXPECT_EQ(options.autocast, at::kBFloat16);
  EXPECT_EQ(options.weights, InitialWeights::kNone);
}

}  // namespace
}  // namespace sluice
