#include "job/trainer_options.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(TrainerOptionsTest, AreThoseOfTheConfiguration) {
  const TrainerOptions options = trainer_options(load_run_config("",
                                                                 {{"optimizer.name", "SGD"},
                                                                  {"optimizer.max_norm", "0.5"},
                                                                  {"training.seed", "7"},
                                                                  {"parallelism.scale_grads", "4"}},
                                                                 {}));
  EXPECT_EQ(options.optimizer.kind, OptimizerKind::kSgd);
  EXPECT_EQ(options.optimizer.max_norm, 0.5);
  EXPECT_EQ(options.seed, 7u);
  EXPECT_EQ(options.scale, GradientScale(GradientScale::kDivisor, 4.0));
}

}  // namespace
}  // namespace sluice
