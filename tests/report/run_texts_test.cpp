#include "report/run_texts.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(RunTextsTest, AFirstStepSaysHowFarItIsAndFromOnePercentOnWhatIsToGo) {
  EXPECT_EQ(first_step_note(0.25, 60), "note: 25.0% of the first step after 1m00s, 3m00s to go");
  EXPECT_EQ(first_step_note(0.01, 26), "note: 1.0% of the first step after 26s, 42m54s to go");
  EXPECT_EQ(first_step_note(0.0001, 26), "note: 0.0% of the first step after 26s");
}

}  // namespace
}  // namespace sluice
