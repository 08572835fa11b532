#include "graph/number_functions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "family/aten_table.h"
#include "sluice/error.h"
#include "support/expect_error.h"

namespace sluice::test::number_functions_test {
namespace {

using Numbers = std::vector<c10::IValue>;

c10::IValue call(const std::string& target, const Numbers& numbers) {
  return detail::number_function(target)(numbers);
}
std::int64_t whole(const std::string& target, std::int64_t a, std::int64_t b) {
  return call(target, {a, b}).toInt();
}

TEST(NumberFunctionsTest, WholeNumbersAreThoseOfPython) {
  EXPECT_EQ(whole("_operator.add", 3, 4), 7);
  EXPECT_EQ(whole("_operator.sub", 3, 4), -1);
  EXPECT_EQ(whole("_operator.mul", -3, 4), -12);
  EXPECT_EQ(whole("_operator.floordiv", -7, 2), -4);
  EXPECT_EQ(whole("_operator.floordiv", 7, -2), -4);
  EXPECT_EQ(whole("_operator.floordiv", -8, 2), -4);
  EXPECT_EQ(whole("_operator.mod", -7, 4), 1);
  EXPECT_EQ(whole("_operator.mod", 7, -4), -1);
  EXPECT_EQ(whole("_operator.pow", 3, 5), 243);
  EXPECT_EQ(whole("_operator.pow", 3, 0), 1);
  EXPECT_EQ(whole("torch.sym_max", 3, 5), 5);
  EXPECT_EQ(whole("torch.sym_min", 3, 5), 3);
  EXPECT_EQ(whole("_operator.and_", 6, 3), 2);
  EXPECT_EQ(call("_operator.neg", {3}).toInt(), -3);
  EXPECT_EQ(call("torch.sym_sum", {Numbers{1, 2}[0], 2, 3}).toInt(), 6);
  EXPECT_EQ(call("torch.sym_sum", {std::vector<std::int64_t>{1, 2, 3}}).toInt(), 6);
}

TEST(NumberFunctionsTest, FloatsStayFloats) {
  EXPECT_EQ(call("_operator.truediv", {3, 2}).toDouble(), 1.5);
  EXPECT_EQ(call("_operator.mul", {3, 0.5}).toDouble(), 1.5);
  EXPECT_EQ(call("_operator.floordiv", {-7.0, 2}).toDouble(), -4.0);
  EXPECT_EQ(call("_operator.mod", {-7.0, 4}).toDouble(), 1.0);
  EXPECT_EQ(call("torch.sym_float", {3}).toDouble(), 3.0);
  EXPECT_EQ(call("math.ceil", {1.2}).toInt(), 2);
  EXPECT_EQ(call("math.floor", {-1.2}).toInt(), -2);
  EXPECT_EQ(call("torch.sym_int", {-1.7}).toInt(), -1);
  EXPECT_EQ(call("torch._sym_sqrt", {9}).toDouble(), 3.0);
}

TEST(NumberFunctionsTest, QuotientsOfFloatsAreThoseOfPython) {
  EXPECT_EQ(call("_operator.floordiv", {1.0, 0.1}).toDouble(), 9.0);
  EXPECT_EQ(call("_operator.floordiv", {-1.0, 0.1}).toDouble(), -10.0);
  EXPECT_EQ(call("_operator.floordiv", {0.0, -2.0}).toDouble(), 0.0);
  EXPECT_EQ(call("_operator.mod", {1.0, 0.1}).toDouble(), 0.09999999999999995);
  for (const char* target : {"_operator.floordiv", "_operator.mod", "_operator.truediv"})
    EXPECT_EQ(error_of([&] { call(target, {1.0, 0.0}); }).fact(), "a size is divided by 0");
  EXPECT_EQ(error_of([&] { call("_operator.pow", {0.0, -1.0}); }).kind(), ErrorKind::kInput);
  EXPECT_EQ(error_of([&] { call("_operator.pow", {-8.0, 0.5}); }).kind(), ErrorKind::kInput);
  EXPECT_EQ(error_of([&] {
              call("_operator.truediv", {(std::int64_t{1} << 53) + 1, 1});
            }).kind(),
            ErrorKind::kInput);
}

TEST(NumberFunctionsTest, TheArchiveKnowsTheSameFunctions) {
  for (std::size_t i = 0; i < detail::kNumNumberFunctions; ++i)
    EXPECT_NE(detail::number_function(detail::kNumberFunctions[i]), nullptr)
        << detail::kNumberFunctions[i];
  EXPECT_FALSE(detail::is_number_function("builtins.print"));
}

TEST(NumberFunctionsTest, ComparisonsAndChoices) {
  EXPECT_TRUE(call("_operator.ge", {3, 3}).toBool());
  EXPECT_FALSE(call("_operator.lt", {3, 2.5}).toBool());
  EXPECT_TRUE(call("_operator.or_", {true, false}).toBool());
  EXPECT_FALSE(call("torch.sym_not", {true}).toBool());
  EXPECT_EQ(call("torch.sym_ite", {false, 1, 2}).toInt(), 2);
}

TEST(NumberFunctionsTest, WhatHasNoValueIsRefused) {
  const auto kind = [](const std::string& target, const Numbers& numbers) {
    return error_of([&] { call(target, numbers); }).kind();
  };
  const std::int64_t most = INT64_MAX;
  EXPECT_EQ(kind("_operator.add", {most, 1}), ErrorKind::kInput);
  EXPECT_EQ(kind("_operator.mul", {most, 2}), ErrorKind::kInput);
  EXPECT_EQ(kind("_operator.pow", {10, 30}), ErrorKind::kInput);
  EXPECT_EQ(kind("_operator.floordiv", {INT64_MIN, -1}), ErrorKind::kInput);
  EXPECT_EQ(kind("_operator.floordiv", {1, 0}), ErrorKind::kInput);
  EXPECT_EQ(kind("_operator.mod", {1, 0}), ErrorKind::kInput);
  EXPECT_EQ(kind("math.floor", {1e300}), ErrorKind::kInput);
  EXPECT_EQ(kind("_operator.add", {1}), ErrorKind::kInput);
  EXPECT_EQ(detail::number_function("_operator.matmul"), nullptr);
}

}  // namespace
}  // namespace sluice::test::number_functions_test
