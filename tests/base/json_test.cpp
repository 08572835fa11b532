#include "base/json.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/strict_json.h"
#include "support/expect_error.h"

namespace sluice::json_test {
namespace {

constexpr const char* kDocument =
    R"({"b": [1, -2, 18446744073709551615, 1e-5, 0.1, 1e300, -0.0, 3.0, [], {}],
        "a": {"z": "\u00e9\ud83d\ude00\"\\\n\u0001/", "y": null, "x": [true, false]},
        "empty": ""})";

TEST(JsonTest, WritesWhatItReadAsTheLibraryWould) {
  const Json value = parse_strict_json(kDocument, "a.json");
  const auto expected = nlohmann::json::parse(kDocument);
  EXPECT_EQ(value.dump(), expected.dump());
  EXPECT_EQ(value.dump(2), expected.dump(2));
  EXPECT_EQ(value.dump(0), expected.dump(0));
  EXPECT_EQ(value.shown(), expected.dump(-1, ' ', true));
  EXPECT_EQ(parse_strict_json(kDocument, "a.json", KeyOrder::kAsWritten).dump(),
            nlohmann::ordered_json::parse(kDocument).dump());
}

TEST(JsonTest, WritesWhatIsBuiltInTheOrderInWhichItWasAdded) {
  Json object = {{"z", 1}, {"a", {{"deep", true}}}};
  object["m"] = std::vector<std::vector<int>>{{1, 2}, {}};
  object["b"] = std::map<std::string, double>{{"y", 2}, {"x", 0.5}};
  object["none"] = std::optional<int>();
  object["some"] = std::optional<int>(7);
  object["nan"] = std::numeric_limits<double>::quiet_NaN();
  object["z"] = "text";
  object["list"].push_back(1);
  object["list"].push_back({{"k", nullptr}});
  EXPECT_EQ(object.dump(),
            R"({"z":"text","a":{"deep":true},"m":[[1,2],[]],"b":{"x":0.5,"y":2.0},"none":null,)"
            R"("some":7,"nan":null,"list":[1,{"k":null}]})");
  object.erase("m");
  object.erase("not there");
  object.update({{"a", 1}, {"new", 2}});
  EXPECT_EQ(object.members()[1].value, 1);
  EXPECT_EQ(object.members().back().key, "new");
  EXPECT_EQ(object.size(), 8u);
  EXPECT_EQ(Json().dump(), "null");
  EXPECT_EQ(Json::object().dump(), "{}");
  EXPECT_EQ(Json::array().dump(), "[]");
}

TEST(JsonTest, WhatIsAddedToAnObjectThatWasReadStandsInItsPlace) {
  Json object = parse_strict_json(R"({"d": 4, "b": 2})", "a.json");
  object["c"] = 3;
  object["a"] = 1;
  object["e"] = 5;
  object["b"] = "two";
  EXPECT_EQ(object.dump(), R"({"a":1,"b":"two","c":3,"d":4,"e":5})");
  object.erase("c");
  EXPECT_FALSE(object.contains("c"));
  EXPECT_TRUE(object.contains("d"));
}

TEST(JsonTest, ComparesNumbersByTheirValueAndObjectsByTheirMembers) {
  EXPECT_EQ(Json(1), Json(1.0));
  EXPECT_EQ(Json(1), Json(1u));
  EXPECT_FALSE(Json(-1) == Json(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_FALSE(Json(1) == Json(true));
  EXPECT_FALSE(Json("1") == Json(1));
  EXPECT_FALSE(Json() == Json(0));
  EXPECT_EQ((Json{{"a", 1}, {"b", {{"c", 2.5}}}}),
            parse_strict_json(R"({"b":{"c":2.5},"a":1})", ""));
  EXPECT_FALSE((Json{{"a", 1}}) == (Json{{"b", 1}}));
  EXPECT_FALSE((Json{{"a", 1}}) == (Json{{"a", 1}, {"b", 1}}));
  EXPECT_FALSE(Json(std::vector{1, 2}) == Json(std::vector{2, 1}));
}

TEST(JsonTest, WhatIsNotThereIsNullAndAnotherTypeIsAnError) {
  const Json object = {{"text", "t"}};
  EXPECT_TRUE(object.at("other").is_null());
  EXPECT_TRUE(object.at("text").at("deeper").is_null());
  EXPECT_EQ(object.find("other"), nullptr);
  const Error error = test::error_of([&] { object.at("text").number(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInternal);
  EXPECT_EQ(error.fact(), "a JSON value is not a number but string");
  EXPECT_THROW(object.list(), Error);
  EXPECT_THROW(object.at("other").members(), Error);
  EXPECT_THROW(Json(1)["key"], Error);
  EXPECT_THROW(Json(1).push_back(1), Error);
}

TEST(JsonTest, TextThatIsNoUtf8IsReplacedOrRefused) {
  const Json value = {{"bad", "a\xff z"}};
  EXPECT_EQ(value.dump(), "{\"bad\":\"a\xEF\xBF\xBD z\"}");
  EXPECT_EQ(value.shown(), R"({"bad":"a\ufffd z"})");
  EXPECT_EQ(value.dump_valid(), std::nullopt);
  EXPECT_EQ(Json("\u00e9").dump_valid(), "\"\u00e9\"");
}

TEST(JsonTest, CharactersThatSteerATerminalAreWrittenAsEscapes) {
  const std::string text = "a\x1b\x7f\xc2\x9b\xd8\x9c\xe2\x80\xae\xe2\x81\xa9\xe2\x80\xa8";
  const std::string written = Json{{text, text}}.dump();
  EXPECT_EQ(written,
            "{\"a\\u001b\\u007f\\u009b\\u061c\\u202e\\u2069\\u2028\":"
            "\"a\\u001b\\u007f\\u009b\\u061c\\u202e\\u2069\\u2028\"}");
  EXPECT_EQ(parse_strict_json(written, "test"), (Json{{text, text}}));
  const std::string plain = "\xc3\xa9\xc2\xa0\xe2\x82\xac\xe2\x80\x9c\xe6\x97\xa5";
  EXPECT_EQ(Json(plain).dump(), "\"" + plain + "\"");
}

}  // namespace
}  // namespace sluice::json_test
