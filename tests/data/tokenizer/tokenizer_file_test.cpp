#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer_json.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/mutate.h"
#include "support/reference_cases.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
using test::parse;
using test::small_tokenizer;

std::string refusal(const std::string& pointer, const Json& value) {
  Json file = small_tokenizer();
  file[Json::json_pointer(pointer)] = value;
  const Error error = test::error_of([&] { parse(file); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_FALSE(error.where().empty());
  EXPECT_FALSE(error.remedy().empty());
  return error.what();
}

void expect_refused(const std::string& pointer, const Json& value, const std::string& what,
                    const std::string& field) {
  const std::string message = refusal(pointer, value);
  EXPECT_NE(message.find(what), std::string::npos) << message;
  EXPECT_NE(
      message.find("; tokenizer.json" + (field.empty() ? "" : ": field '" + field + "'") + "; "),
      std::string::npos)
      << message;
}

TEST(TokenizerFileTest, RefusesUnknownPartsByTheirNameAndField) {
  expect_refused("/normalizer", {{"type", "Precompiled"}},
                 "the normalizer 'Precompiled' is not supported", "normalizer");
  expect_refused("/normalizer",
                 {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Nmt"}}}}},
                 "the normalizer 'Nmt'", "normalizer.normalizers[1]");
  expect_refused("/pre_tokenizer", {{"type", "UnicodeScripts"}},
                 "the pre-tokenizer 'UnicodeScripts'", "pre_tokenizer");
  expect_refused("/post_processor", {{"type", "New"}}, "the post-processor 'New'",
                 "post_processor");
  expect_refused("/decoder", {{"type", "WordPiece"}}, "the decoder 'WordPiece'", "decoder");
  expect_refused("/model/type", "Unigram", "the model 'Unigram'", "model.type");
  expect_refused("/model/dropout", 0.1, "dropping merges at random", "model.dropout");
  expect_refused("/truncation", {{"max_length", 4}}, "truncation by the tokenizer itself",
                 "truncation");
  expect_refused("/padding", {{"strategy", "BatchLongest"}}, "padding by the tokenizer itself",
                 "padding");
  expect_refused("/version", "2.0", "the version '2.0'", "version");
}

TEST(TokenizerFileTest, RefusesOptionsThatItDoesNotKnow) {
  expect_refused("/pre_tokenizer",
                 {{"type", "Split"},
                  {"pattern", {{"String", "a"}}},
                  {"behavior", "Doubled"},
                  {"invert", false}},
                 "the behavior 'Doubled'", "pre_tokenizer.behavior");
  expect_refused("/pre_tokenizer",
                 {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}},
                 "the prepend scheme 'last'", "pre_tokenizer.prepend_scheme");
  expect_refused("/normalizer",
                 {{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", "x"}},
                 "an empty text to look for", "normalizer.pattern.String");
}

TEST(TokenizerFileTest, RefusesTemplatesThatAreNoPrefixAndSuffix) {
  const auto piece = [](const char* kind, const char* id) {
    return Json{{kind, {{"id", id}, {"type_id", 0}}}};
  };
  const auto with = [&](const Json& single) {
    return Json{{"type", "TemplateProcessing"},
                {"single", single},
                {"pair", Json::array()},
                {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {30}}, {"tokens", {"<s>"}}}}}}};
  };
  expect_refused("/post_processor", with(Json::array({piece("SpecialToken", "<s>")})),
                 "a template without the text", "post_processor");
  expect_refused("/post_processor", with({piece("Sequence", "A"), piece("Sequence", "A")}),
                 "the text twice", "post_processor.single[1].Sequence");
  expect_refused("/post_processor", with(Json::array({piece("Sequence", "B")})),
                 "the second text of a pair", "post_processor.single[0].Sequence.id");
  expect_refused("/post_processor", with({piece("SpecialToken", "<x>"), piece("Sequence", "A")}),
                 "expected", "post_processor.special_tokens.<x>");
  Json other = with({piece("SpecialToken", "<s>"), piece("Sequence", "A")});
  other["special_tokens"]["<s>"]["ids"] = {1000};
  expect_refused("/post_processor", other, "the id 1000, which is not a token's", "post_processor");
  expect_refused("/post_processor",
                 {{"type", "Sequence"},
                  {"processors",
                   {with(Json::array({piece("Sequence", "A")})),
                    with(Json::array({piece("Sequence", "A")}))}}},
                 "a second post-processor", "post_processor.processors[1]");
}

TEST(TokenizerFileTest, RefusesVocabulariesAndMergesThatDoNotFitTogether) {
  expect_refused("/model/merges", {"a q", "x y"}, "a merge has the token 'aq'", "model.merges");
  expect_refused("/model/merges", {"a b", "a b c"}, "two tokens", "model.merges[1]");
  expect_refused("/model/merges", Json::array({Json::array({"a", 1})}), "two tokens",
                 "model.merges[0]");
  expect_refused("/model/merges", "a b", "expected an array", "model.merges");
  expect_refused("/model/vocab/a", -1, "a whole number from 0", "model.vocab.a");
  expect_refused("/model/vocab/a", 1 << 22, "a whole number from 0 to 4194303", "model.vocab.a");
  expect_refused("/model/vocab/a", 1.5, "found 1.5", "model.vocab.a");
  expect_refused("/model/vocab/a", 1, "the id of another token", "model.vocab.b");
  expect_refused("/model/vocab", Json::array(), "expected an object", "model.vocab");
  expect_refused("/model/vocab/" + std::string(5000, 'x'), 99, "a token of 5000 bytes",
                 "model.vocab");
  expect_refused("/added_tokens", {{{"content", "<x>"}}}, "expected true or false",
                 "added_tokens[0].single_word");
}

TEST(TokenizerFileTest, NamesTheFileThatIsNoTokenizer) {
  const test::TempDirectory folder;
  EXPECT_NE(
      test::message_of([&] { Tokenizer::read(folder.str()); }).find(folder / "tokenizer.json"),
      std::string::npos);
  test::write_file(folder / "tokenizer.json", "{\"version\": \"1.0\",\n nonsense}");
  EXPECT_NE(test::message_of([&] { Tokenizer::read(folder.str()); }).find("tokenizer.json:2:"),
            std::string::npos);
  test::write_file(folder / "tokenizer.json", small_tokenizer().dump());
  EXPECT_EQ(Tokenizer::read(folder.str()).encode("abc"), (std::vector<std::int32_t>{29}));
  for (const char* text : {"", "[]", "null", "{}", "{\"model\":{}}", "{\"model\":3}"}) {
    EXPECT_EQ(test::error_of([&] { Tokenizer::parse(text, "t.json"); }).kind(), ErrorKind::kInput)
        << text;
  }
}

TEST(TokenizerFileTest, StandsAnyEditOfAFile) {
  std::vector<std::string> files;
  for (const char* name : {"llama3", "mistral", "words", "behaviours"}) {
    files.push_back(testing::read_test_file("reference/tokenizers/" + std::string(name) + ".json"));
  }
  std::mt19937 random(7);
  int read = 0;
  for (int i = 0; i < 1200; ++i) {
    const std::string text =
        test::mutate(files[static_cast<std::size_t>(i) % files.size()], files, random);
    try {
      const Tokenizer tokenizer = Tokenizer::parse(text, "tokenizer.json");
      tokenizer.decode(tokenizer.encode("Hello wörld, abc  123\n"));
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
    }
  }
  EXPECT_GT(read, 10);
}

TEST(TokenizerFileTest, ReadsAMillionMergesInBoundedTime) {
  Json file = small_tokenizer();
  Json& vocab = file["model"]["vocab"];
  Json merges = Json::array();
  // Merges that double a token again and again, and many merges of the same few texts.
  std::string token = "a";
  int id = 100;
  while (token.size() < 4096) {
    merges.push_back(token + " " + token);
    token += token;
    vocab[token] = id++;
  }
  for (int i = 0; i < 300'000; ++i) merges.push_back(i % 2 ? "a b" : "b c");
  file["model"]["merges"] = merges;
  const auto start = std::chrono::steady_clock::now();
  const Tokenizer tokenizer = parse(file);
  const std::vector<std::int32_t> ids = tokenizer.encode(std::string(1 << 20, 'a'));
  EXPECT_EQ(ids.size(), (1u << 20) / 4096);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(TokenizerFileTest, StopsAPatternThatTakesTooLong) {
  Json file = small_tokenizer();
  file["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"Regex", "(a+)+b|(?:a|a)+c"}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
  const Tokenizer tokenizer = parse(file);
  EXPECT_EQ(tokenizer.encode("aaab").size(), 3u);
  const Error error = test::error_of([&] { tokenizer.encode(std::string(5000, 'a')); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_NE(std::string(error.what()).find("takes too long"), std::string::npos) << error.what();
  EXPECT_EQ(tokenizer.encode("aaab").size(), 3u);
}

}  // namespace
}  // namespace sluice
