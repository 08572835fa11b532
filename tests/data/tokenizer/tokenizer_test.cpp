#include "sluice/tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "data/tokenizer/tokenizer_json.h"
#include "sluice/error.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

using Ids = std::vector<std::int32_t>;
using Json = nlohmann::json;
using test::added_token;
using test::parse;
using test::small_tokenizer;

TEST(TokenizerTest, MergesTheLowestRankFirstAndTheLeftmostOfEqualOnes) {
  Json file = small_tokenizer();
  EXPECT_EQ(parse(file).encode("abc"), (Ids{29}));
  EXPECT_EQ(parse(file).encode("bcab"), (Ids{28, 27}));
  file["model"]["merges"] = {"b c", "a b", "ab c"};
  EXPECT_EQ(parse(file).encode("abc"), (Ids{0, 28}));
  Json& vocab = file["model"]["vocab"];
  vocab["aa"] = 50;
  file["model"]["merges"] =
      Json::array({Json::array({"a", "a"})});  // the newer notation for merges
  EXPECT_EQ(parse(file).encode("aaa"), (Ids{50, 0}));
}

// Words of about 40 or more units are merged with a queue. Longer words are also cut wherever no
// merge is possible.
TEST(TokenizerTest, GivesLongWordsTheIdsOfTheirPartsAlone) {
  const Tokenizer tokenizer = parse(small_tokenizer());
  for (const std::string word : {"abc", "bca", "aabbcc", "cab", "abab", "z"}) {
    std::string text;
    Ids expected;
    for (int i = 0; i < 300; ++i) {
      text += word + "q";
      const Ids part = tokenizer.encode(word + "q");
      expected.insert(expected.end(), part.begin(), part.end());
    }
    EXPECT_EQ(tokenizer.encode(text), expected) << word;
  }
  Ids alternating(5000, 27);
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "ab";
  EXPECT_EQ(tokenizer.encode(text), alternating);
}

TEST(TokenizerTest, DropsOrMarksUnknownCharacters) {
  Json file = small_tokenizer();
  EXPECT_EQ(parse(file).encode("aÄb"), (Ids{27}));
  file["model"]["unk_token"] = "<s>";
  EXPECT_EQ(parse(file).encode("aÄÖb"), (Ids{0, 30, 30, 1}));
  file["model"]["fuse_unk"] = true;
  EXPECT_EQ(parse(file).encode("aÄÖb"), (Ids{0, 30, 1}));
  file["model"]["byte_fallback"] = true;
  file["model"]["vocab"]["<0xC3>"] = 40;
  EXPECT_EQ(parse(file).encode("aÄb"), (Ids{0, 30, 1}));
  file["model"]["vocab"]["<0x84>"] = 41;
  EXPECT_EQ(parse(file).encode("aÄb"), (Ids{0, 40, 41, 1}));
  file["model"]["unk_token"] = "<none>";
  const Tokenizer tokenizer = parse(file);
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{29}));
  EXPECT_NE(test::message_of([&] { tokenizer.encode("Ö"); }).find("no token '<none>'"),
            std::string::npos);
}

TEST(TokenizerTest, TakesBytesThatAreNoTextForReplacementCharacters) {
  Json file = small_tokenizer();
  file["model"]["vocab"]["\xEF\xBF\xBD"] = 60;
  const Tokenizer tokenizer = parse(file);
  EXPECT_EQ(tokenizer.encode("a\xFFz"), (Ids{0, 60, 25}));
  EXPECT_EQ(tokenizer.encode("a\xF0\x9F\x98z"), (Ids{0, 60, 25}));  // the start of a character
  EXPECT_EQ(tokenizer.encode("\xED\xA0\x80"), (Ids{60, 60, 60}));   // a surrogate
  // an overlong encoding, then a truncated one
  EXPECT_EQ(tokenizer.encode("\xC0\x80\xE2\x82"), (Ids{60, 60, 60}));
}

TEST(TokenizerTest, FindsTheLongestAddedTokenThatBeginsFirst) {
  Json file = small_tokenizer();
  file["added_tokens"] = {added_token("<s>", 30), added_token("<s", 31), added_token("<s>b", 32)};
  const Tokenizer tokenizer = parse(file);
  EXPECT_EQ(tokenizer.encode("a<s>bc<s<s>"), (Ids{0, 32, 2, 31, 30}));
  EXPECT_EQ(tokenizer.num_ids(), 33);
  EXPECT_EQ(tokenizer.id_of("<s"), 31);
  EXPECT_EQ(tokenizer.id_of("abc"), 29);
  EXPECT_EQ(tokenizer.id_of("abcd"), std::nullopt);
  EXPECT_EQ(tokenizer.token_of(32), "<s>b");
  EXPECT_EQ(tokenizer.token_of(29), "abc");
  EXPECT_EQ(tokenizer.token_of(1000), "");
  EXPECT_TRUE(tokenizer.is_special(31));
  EXPECT_FALSE(tokenizer.is_special(29));
}

TEST(TokenizerTest, NumbersAddedTokensAsTokenizersDoes) {
  Json file = small_tokenizer();
  file["added_tokens"] = {added_token("abc", 500), added_token("<x>", 700), added_token("<y>", 3)};
  const Tokenizer tokenizer = parse(file);
  EXPECT_EQ(tokenizer.encode("abc<x><y>"), (Ids{29, 31, 32}));
}

TEST(TokenizerTest, StripsAndKeepsWordsAroundAddedTokens) {
  Json file = small_tokenizer();
  Json strip = added_token("<m>", 31), word = added_token("qq", 32);
  strip["lstrip"] = strip["rstrip"] = true;
  word["single_word"] = true;
  file["added_tokens"] = {strip, word};
  const Tokenizer tokenizer = parse(file);
  EXPECT_EQ(tokenizer.encode("a \t<m> \n b"), (Ids{0, 31, 1}));
  EXPECT_EQ(tokenizer.encode("a<m><m>"), (Ids{0, 31, 31}));
  EXPECT_EQ(tokenizer.encode("qq qqa aqq qq"), (Ids{32, 26, 16, 16, 0, 26, 0, 16, 16, 26, 32}));
}

// tokenizers does the same.
TEST(TokenizerTest, DropsATokenOfSpacesThatTheOneBeforeHasTaken) {
  const auto ids = [](bool marked, bool left, bool right, const std::string& text) {
    Json file = small_tokenizer();
    Json line = added_token("\n", 31), mark = added_token("<A>", 32);
    line["lstrip"] = left;
    line["rstrip"] = right;
    mark["rstrip"] = true;
    file["added_tokens"] = marked ? Json::array({line, mark}) : Json::array({line});
    return parse(file).encode(text);
  };
  EXPECT_EQ(ids(false, true, true, "\n\n\n"), (Ids{31}));
  EXPECT_EQ(ids(false, true, true, " \n \n a"), (Ids{31, 0}));
  EXPECT_EQ(ids(false, true, false, "\n\n\n"), (Ids{31, 31, 31}));
  EXPECT_EQ(ids(false, false, true, "\n\n\n"), (Ids{31, 31, 31}));
  EXPECT_EQ(ids(true, true, false, "<A>\n"), (Ids{32}));
  EXPECT_EQ(ids(true, true, true, "<A>\n\n"), (Ids{32}));
  EXPECT_EQ(ids(true, true, true, "<A> \n a\n"), (Ids{32, 0, 31}));
  EXPECT_EQ(ids(true, false, false, "<A>\n\n"), (Ids{32, 31, 31}));
  EXPECT_EQ(ids(true, true, false, "<A>\n\n"), (Ids{32})) << "tokenizers panics here";
}

TEST(TokenizerTest, LooksForNormalizedTokensInNormalizedText) {
  Json file = small_tokenizer();
  file["normalizer"] = {{"type", "Lowercase"}};
  Json raw = added_token("AB", 31), normalized = added_token("QZ", 32);
  normalized["normalized"] = true;
  file["added_tokens"] = {raw, normalized};
  const Tokenizer tokenizer = parse(file);
  EXPECT_EQ(tokenizer.encode("ABab qzQZ"), (Ids{31, 27, 26, 32, 32}));
  EXPECT_EQ(tokenizer.decode(Ids{32}), "qz");  // the normalized text, as the decoder receives it
}

TEST(TokenizerTest, PutsNothingBeforeATextThatGoesOn) {
  const auto with = [](const char* field, const Json& part) {
    Json file = small_tokenizer();
    file["model"]["vocab"]["_"] = 40;
    file[field] = part;
    return parse(file);
  };
  const Tokenizer prepends = with("normalizer", {{"type", "Prepend"}, {"prepend", "_"}});
  EXPECT_EQ(prepends.encode("abc"), (Ids{40, 29}));
  EXPECT_EQ(prepends.encode_continuation("abc"), (Ids{29}));
  for (const char* scheme : {"first", "always"}) {
    const Tokenizer metaspace = with("pre_tokenizer", {{"type", "Metaspace"},
                                                       {"replacement", "_"},
                                                       {"prepend_scheme", scheme},
                                                       {"split", false}});
    EXPECT_EQ(metaspace.encode("abc a"), (Ids{40, 29, 40, 0})) << scheme;
    EXPECT_EQ(metaspace.encode_continuation("abc a"), (Ids{29, 40, 0})) << scheme;
    EXPECT_EQ(metaspace.encode_continuation(" abc"), (Ids{40, 29})) << scheme;
  }
}

TEST(TokenizerTest, PrependsToTheFirstPieceOnlyWhereItIsSaid) {
  for (const auto& [scheme, expected] : std::vector<std::pair<std::string, Ids>>{
           {"first", {40, 0, 30, 1}}, {"always", {40, 0, 30, 40, 1}}, {"never", {0, 30, 1}}}) {
    Json file = small_tokenizer();
    file["model"]["vocab"]["_"] = 40;
    file["added_tokens"] = Json::array({added_token("<s>", 30)});
    file["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", scheme}};
    EXPECT_EQ(parse(file).encode("a<s>b"), expected) << scheme;
  }
}

TEST(TokenizerTest, RejectsUnknownIdWhenDecoding) {
  const Tokenizer tokenizer = parse(small_tokenizer());
  for (const std::int32_t id : {-1, 31, 1 << 30}) {
    const Error error = test::error_of([&] { tokenizer.decode(Ids{0, id}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find(std::to_string(id)), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(tokenizer.decode(Ids{}), "");
}

TEST(TokenizerTest, LeavesSpecialTokensOutWhenAsked) {
  Json file = small_tokenizer();
  file["added_tokens"] = Json::array({added_token("<s>", 30)});
  file["decoder"] = {{"type", "Fuse"}};
  const Tokenizer tokenizer = parse(file);
  EXPECT_EQ(tokenizer.decode(Ids{30, 29, 30}), "<s>abc<s>");
  EXPECT_EQ(tokenizer.decode(Ids{30, 29, 30}, true), "abc");
}

TEST(TokenizerTest, IsUsedByManyThreadsAtOnce) {
  const Tokenizer tokenizer = parse(small_tokenizer());
  std::vector<Ids> found(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      const Tokenizer own = tokenizer;
      for (int k = 0; k < 500; ++k)
        found[i] = own.encode("abc" + std::string(static_cast<std::size_t>(k % 50), 'a'));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : found) EXPECT_EQ(ids, found.front());
}

}  // namespace
}  // namespace sluice
