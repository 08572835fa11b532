// tools/make_reference_tokenizers.py recorded the results of `tokenizers`.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sluice/tokenizer.h"
#include "support/reference_cases.h"

namespace sluice {
namespace {

using Ids = std::vector<std::int32_t>;

const std::string kFolder = "reference/tokenizers/";

nlohmann::json read_json(const std::string& name) {
  return nlohmann::json::parse(testing::read_test_file(kFolder + name));
}

class TokenizerReferenceTest : public ::testing::TestWithParam<const char*> {
 protected:
  TokenizerReferenceTest()
      : tokenizer_(
            Tokenizer::read(std::string(SLUICE_TEST_DATA) + "/" + kFolder + GetParam() + ".json")),
        expected_(read_json(std::string(GetParam()) + ".expected.json")),
        strings_(read_json("strings.json").get<std::vector<std::string>>()) {}

  const Tokenizer tokenizer_;
  const nlohmann::json expected_;
  const std::vector<std::string> strings_;
};

TEST_P(TokenizerReferenceTest, GivesTheIdsOfTokenizers) {
  ASSERT_GT(strings_.size(), 200u);
  ASSERT_EQ(expected_.at("ids").size(), strings_.size());
  for (std::size_t i = 0; i < strings_.size(); ++i) {
    EXPECT_EQ(tokenizer_.encode(strings_[i], false), expected_.at("ids")[i].get<Ids>())
        << strings_[i];
  }
}

TEST_P(TokenizerReferenceTest, PutsWhatThePostProcessorSaysAroundThem) {
  EXPECT_EQ(tokenizer_.prefix(), expected_.at("before").get<Ids>());
  EXPECT_EQ(tokenizer_.suffix(), expected_.at("after").get<Ids>());
  Ids whole = tokenizer_.prefix();
  const Ids ids = tokenizer_.encode(strings_[1], false);
  whole.insert(whole.end(), ids.begin(), ids.end());
  whole.insert(whole.end(), tokenizer_.suffix().begin(), tokenizer_.suffix().end());
  EXPECT_EQ(tokenizer_.encode(strings_[1]), whole);
}

TEST_P(TokenizerReferenceTest, DecodesToTheTextOfTokenizers) {
  for (std::size_t i = 0; i < strings_.size(); ++i) {
    EXPECT_EQ(tokenizer_.decode(expected_.at("ids")[i].get<Ids>()),
              expected_.at("text")[i].get<std::string>())
        << strings_[i];
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerReferenceTest,
                         ::testing::Values("gpt2", "llama3", "qwen2", "deepseek", "o200k", "llama2",
                                           "mistral", "gemma", "words", "no_fallback", "behaviours",
                                           "bytes_normalized"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace sluice
