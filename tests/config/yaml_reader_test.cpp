#include "config/import/yaml_reader.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/format.h"
#include "config/import/argument_words.h"
#include "support/expect_error.h"

namespace sluice::detail {
namespace {

std::string dump(const std::string& text) { return parse_yaml(text, "a.yml").root.dump(); }

std::string error_of(const std::string& text) {
  return test::message_of([&] { parse_yaml(text, "a.yml"); });
}

TEST(YamlReaderTest, ReadsScalarsAsTheTrainersDo) {
  EXPECT_EQ(
      dump("a: 1\nb: 2e-5\nc: yes\nd: Off\ne:\nf: ~\ng: 0.5\nh: -3\ni: 1_000\nj: .5"),
      R"({"a":1,"b":2e-05,"c":true,"d":false,"e":null,"f":null,"g":0.5,"h":-3,"i":1000,"j":0.5})");
  EXPECT_EQ(dump("a: '1'\nb: \"yes\"\nc: 1.2.3\nd: 99999999999999999999x\ne: !!str 7\nf:\n  -"),
            R"({"a":"1","b":"yes","c":"1.2.3","d":"99999999999999999999x","e":"7","f":[null]})");
  EXPECT_EQ(dump("a: [q, v]\nb: {c: d}\ne:\n  - f: 1\n    g: 2\n"),
            R"({"a":["q","v"],"b":{"c":"d"},"e":[{"f":1,"g":2}]})");
}

TEST(YamlReaderTest, KnowsTheLineOfEachKey) {
  const YamlText text = parse_yaml("a: 1\n\nb:\n  c: 2\n  d:\n    e: 3\nf:\n  - g: 4\n", "a.yml");
  EXPECT_EQ(text.lines, (std::map<std::string, int>{
                            {"a", 1}, {"b", 3}, {"b.c", 4}, {"b.d", 5}, {"b.d.e", 6}, {"f", 7}}));
}

TEST(YamlReaderTest, ExpandsAliasesAndMerges) {
  EXPECT_EQ(dump("a: &x {b: 1, c: 2}\nd: *x\ne:\n  <<: *x\n  c: 3\n"),
            R"({"a":{"b":1,"c":2},"d":{"b":1,"c":2},"e":{"c":3,"b":1}})");
}

TEST(YamlReaderTest, RefusesWhatItCannotRead) {
  EXPECT_EQ(error_of("a: 1\na: 2\n"), "the key 'a' is there twice; a.yml:2:4; keep one of them");
  EXPECT_NE(error_of("a: [1\nb: 2\n").find("not YAML: "), std::string::npos);
  EXPECT_NE(error_of("a: !!python/object:os.system x\n").find("is not read; a.yml:1:4"),
            std::string::npos);
  EXPECT_NE(error_of("? [a, b]\n: 1\n").find("a key is not a name"), std::string::npos);
  EXPECT_NE(error_of("a: 1\n---\nb: 2\n").find("a second document"), std::string::npos);
  EXPECT_NE(error_of("a: &x [*x]\n").find("alias"), std::string::npos);
}

TEST(YamlReaderTest, BoundsDepthSizeAndAliases) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_NO_THROW(parse_yaml(nested(kMaxYamlDepth), "a.yml"));
  EXPECT_NE(error_of(nested(kMaxYamlDepth + 1)).find("nesting above 64 levels"), std::string::npos);
  const auto begin = std::chrono::steady_clock::now();
  error_of(nested(200000));
  std::string bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += formatted("a{}: &a{} [", i, i);
    for (int k = 0; k < 10; ++k) bomb += (k ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_NE(error_of(bomb).find("more than 20000 values"), std::string::npos);
  std::string wide;
  for (std::size_t i = 0; i < kMaxYamlValues; ++i) wide += formatted("k{}: 1\n", i);
  EXPECT_NE(error_of(wide).find("more than 20000 values"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(YamlReaderTest, SplitsACommandLine) {
  const std::string text =
      "# how we train\naccelerate launch --num_processes 4 sft.py \\\n  --learning_rate 2e-5 "
      "--bf16 \\\n  --target_modules q_proj v_proj --run-name='a b' --bf16 false # end\n";
  EXPECT_TRUE(has_arguments(text));
  EXPECT_EQ(parse_arguments(text, "a.txt").dump(),
            R"({"launcher":["--num_processes"],"learning_rate":2e-05,)"
            R"("target_modules":["q_proj","v_proj"],"run_name":"a b","bf16":false})");
  EXPECT_EQ(parse_arguments("trl sft --a=1 b", "a.txt").dump(), R"({"a":1,"arguments":["b"]})");
  EXPECT_FALSE(has_arguments("a: b--c\n--- \n"));
  EXPECT_EQ(test::message_of([] { parse_arguments("--a 'b", "a.txt"); }),
            "a quote is not closed; a.txt; close it");
}

}  // namespace
}  // namespace sluice::detail
