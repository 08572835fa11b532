#include "base/format.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace sluice {
namespace {

TEST(FormatTest, PutsValuesInTheirPlaces) {
  const std::string name = "rank";
  const std::string_view view = "of";
  EXPECT_EQ(formatted("{} {} {} {}", name, 3, view, std::size_t{8}), "rank 3 of 8");
  EXPECT_EQ(formatted("stage {}, {}", -1, 1 < 2 ? "first" : "last one"), "stage -1, first");
  EXPECT_EQ(formatted("{}{}", std::string(), ""), "");
}

TEST(FormatTest, WritesDoubledBracesOnce) {
  EXPECT_EQ(formatted("{{\"bytes\": {}}}", 12), "{\"bytes\": 12}");
  EXPECT_EQ(formatted("{{}}{}{{", "{}"), "{}{}{");
}

TEST(FormatTest, WritesIntegersAsToStringDoes) {
  const auto expect = [](auto value) { EXPECT_EQ(formatted("{}", value), std::to_string(value)); };
  expect(std::numeric_limits<std::int64_t>::min());
  expect(std::numeric_limits<std::int64_t>::max());
  expect(std::numeric_limits<std::uint64_t>::max());
  expect(std::numeric_limits<int>::min());
  expect(std::uint8_t{65});
  expect(std::int8_t{-65});
  expect(std::uint16_t{0});
}

TEST(FormatTest, CountsTheValuesOfAPatternWhileItIsCompiled) {
  static_assert(detail::num_values("") == 0);
  static_assert(detail::num_values("{{}} {} {{{}}}") == 2);
  for (const char* const pattern : {"{", "}", "{ }", "{:}", "} {}", "{}}"}) {
    EXPECT_THROW(detail::num_values(pattern), const char*) << pattern;
  }
}

TEST(FormatTest, TakesOnlyWhatHasOneSpelling) {
  static_assert(std::is_constructible_v<detail::ValueText, std::string>);
  static_assert(std::is_constructible_v<detail::ValueText, unsigned char>);
  EXPECT_FALSE((std::is_constructible_v<detail::ValueText, double>));
  EXPECT_FALSE((std::is_constructible_v<detail::ValueText, bool>));
  EXPECT_FALSE((std::is_constructible_v<detail::ValueText, char>));
}

}  // namespace
}  // namespace sluice
