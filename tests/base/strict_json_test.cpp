#include "base/strict_json.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace sluice {
namespace {

TEST(StrictJsonTest, RefusesANulAndWhatFollowsIt) {
  const std::string nul(1, '\0');
  for (const std::string& text :
       {"{\"a\": 1}" + nul, "{\"a\": 1}\n" + nul + " garbage", nul, "{\"a" + nul + "\": 1}"}) {
    const Error error = test::error_of([&] { parse_strict_json(text, "config.json"); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.fact(), "not valid JSON: a NUL character");
  }
  EXPECT_EQ(test::error_of([&] { parse_strict_json("{}\n" + nul, "config.json"); }).where(),
            "config.json:2:1");
  EXPECT_EQ(parse_strict_json("{\"a\": \"\\u0000\"}", "config.json")["a"], nul);
}

TEST(StrictJsonTest, ANumberThatNoTypeHoldsIsSaidWithoutTheLibrarysCodes) {
  const Error error = test::error_of([] { parse_strict_json("{\"a\": 1e99999}", "config.json"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.fact(), "not valid JSON: number overflow parsing '1e99999'");
}

}  // namespace
}  // namespace sluice
