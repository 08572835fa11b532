#include "layer/unfilled.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace sluice::test {
namespace {

TEST(UnfilledTest, AFreshFloatingPointTensorIsNaNAndReportedUntilItsLastElementIsWritten) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const at::Tensor tensor = unfilled({2, 3}, type);
    EXPECT_TRUE(at::isnan(tensor).all().item<bool>()) << type;
    at::Tensor values = tensor.view(-1);
    for (int i = 0; i < 6; ++i) {
      EXPECT_TRUE(is_unfilled(tensor)) << type << ", " << i << " elements are written";
      values[i].fill_(1);
    }
    EXPECT_FALSE(is_unfilled(tensor)) << type;
  }
}

TEST(UnfilledTest, ANaNOfACheckpointIsNotTakenForUnfilledMemory) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_FALSE(is_unfilled(at::full({4}, nan, type))) << type;
    EXPECT_FALSE(is_unfilled(at::zeros({4}, type) / 0)) << type;
  }
}

TEST(UnfilledTest, AnIntegerTensorIsUnfilledWhileAllOfItIsTheLowestValue) {
  for (const at::ScalarType type :
       {at::kChar, at::kByte, at::kShort, at::kUInt16, at::kInt, at::kUInt32, at::kLong,
        at::kUInt64, at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    const at::Tensor tensor = unfilled({3}, type);
    EXPECT_TRUE(is_unfilled(tensor)) << type;
    tensor[1].fill_(0);
    EXPECT_FALSE(is_unfilled(tensor)) << type;
  }
}

TEST(UnfilledTest, ABoolOrComplexTensorIsUnfilledUntilItsLastElementIsWritten) {
  for (const at::ScalarType type : {at::kBool, at::kComplexFloat, at::kComplexDouble}) {
    const at::Tensor tensor = unfilled({2}, type);
    tensor[0].fill_(1);
    EXPECT_TRUE(is_unfilled(tensor)) << type;
    tensor[1].fill_(1);
    EXPECT_FALSE(is_unfilled(tensor)) << type;
  }
}

}  // namespace
}  // namespace sluice::test
