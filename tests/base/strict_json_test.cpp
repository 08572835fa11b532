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
  EXPECT_EQ(parse_strict_json("{\"a\": \"\\u0000\"}", "config.json").at("a"), nul);
}

TEST(StrictJsonTest, ANumberThatNoTypeHoldsIsSaidWithoutTheLibrarysCodes) {
  const Error error = test::error_of([] { parse_strict_json("{\"a\": 1e99999}", "config.json"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.fact(), "not valid JSON: number overflow parsing '1e99999'");
}

TEST(StrictJsonTest, RefusesAKeyThatComesTwiceWhateverTheOrder) {
  for (const KeyOrder order : {KeyOrder::kSorted, KeyOrder::kAsWritten}) {
    const Error error = test::error_of(
        [&] { parse_strict_json(R"({"o": {"b": 1, "a": 2, "b": 1}})", "config.json", order); });
    EXPECT_EQ(error.fact(), "key 'b' appears twice in one JSON object");
    EXPECT_EQ(error.where(), "config.json");
  }
}

TEST(StrictJsonTest, SixtyFourLevelsAreReadAndNoMore) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_EQ(parse_strict_json(nested(kMaxJsonDepth), "a.json").dump(), nested(kMaxJsonDepth));
  EXPECT_EQ(test::error_of([&] { parse_strict_json(nested(100000), "a.json"); }).fact(),
            "JSON is nested deeper than 64 levels");
  EXPECT_EQ(parse_json(nested(kMaxJsonDepth + 1)), std::nullopt);
}

TEST(StrictJsonTest, ReadsAsManyValuesAsItIsAskedToAndNoMore) {
  const std::string text = R"({"a": [1, 2, {"b": null}]})";  // six values
  EXPECT_EQ(parse_strict_json(text, "a.json", KeyOrder::kSorted, 6).at("a").size(), 3u);
  const Error error =
      test::error_of([&] { parse_strict_json(text, "a.json", KeyOrder::kSorted, 5); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.fact(), "JSON has more than 5 values");
}

TEST(StrictJsonTest, SaysWhereTheTextIsNoJson) {
  const Error error = test::error_of([] { parse_strict_json("{\"a\":\n  tru}", "a.json"); });
  EXPECT_EQ(error.where(), "a.json:2:6");
  EXPECT_EQ(error.fact(),
            "not valid JSON: syntax error while parsing value - invalid literal; last read: "
            "'\"a\":<U+000A>  tru}'");
  for (const char* text : {"", "{} x", "[1,]", "\"\xff\"", "{1: 2}"}) {
    EXPECT_THROW(parse_strict_json(text, "a.json"), Error) << text;
    EXPECT_EQ(parse_json(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace sluice
