#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/key_hash.h"
#include "sluice/data.h"
#include "sluice/error.h"
#include "sluice/tokenizer.h"
#include "support/expect_error.h"
#include "support/small_tokenizer.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using test::error_of;
using test::SmallTokenizer;
using test::TempDirectory;
using Tokens = std::vector<std::int32_t>;

constexpr const char* kSpace = "\xc4\xa0";  // a space in GPT-2's byte alphabet

SmallTokenizer small_tokenizer() {
  SmallTokenizer tokenizer;
  tokenizer.merges = {{"t", "h"},  {"th", "e"},     {kSpace, "the"}, {"a", "n"},
                      {"an", "d"}, {kSpace, "and"}, {"o", "r"},      {"\xc4\x8a", "\xc4\x8a"},
                      {"e", "r"},  {kSpace, "a"}};
  tokenizer.special = {"<s>", "</s>", "<|im_start|>", "<|im_end|>"};
  return tokenizer;
}

class TokenizedDataTest : public testing::Test {
 protected:
  TokenizedDataTest() { write_tokenizer(); }
  void write_tokenizer() {
    test::write_file(folder_ / "model/tokenizer.json", tokenizer_.json());
    test::write_file(folder_ / "model/tokenizer_config.json",
                     R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>"})");
  }
  TokenDataOptions options(const std::string& name, std::int64_t seq_len = 64) const {
    TokenDataOptions options;
    options.data.files = {folder_ / name};
    options.data.shuffle = false;
    options.seq_len = seq_len;
    options.vocab_size = tokenizer_.size();
    options.model_directory = folder_ / "model";
    return options;
  }
  Tokenizer tokenizer() const { return Tokenizer::read(folder_ / "model"); }
  std::pair<Tokens, Tokens> row(const std::string& json, TokenDataOptions options) const {
    test::write_file(options.data.files.front(), json);
    options.data.pad = Padding::kLongest;
    const TokenRows rows = TokenData(options).read({0}, 1);
    const std::ptrdiff_t length = rows.lengths.front();
    return {{rows.ids.begin(), rows.ids.begin() + length},
            {rows.labels.begin(), rows.labels.begin() + length}};
  }
  std::string counted(const std::pair<Tokens, Tokens>& row) const {
    std::string text;
    for (const std::int32_t label : row.second)
      text += label < 0 ? "_" : tokenizer().decode(std::vector<std::int32_t>{label});
    return text;
  }

  SmallTokenizer tokenizer_ = small_tokenizer();
  const TempDirectory folder_;
};

TEST_F(TokenizedDataTest, ATextRowIsAsTheTokenizerEncodesIt) {
  const auto [ids, labels] = row(R"({"text": "the band and the other"})", options("a.jsonl"));
  EXPECT_EQ(ids, tokenizer().encode("the band and the other"));
  EXPECT_EQ(labels, ids);
  tokenizer_.begin = "<s>";
  tokenizer_.end = "</s>";
  write_tokenizer();
  const Tokens around = row(R"({"text": "the"})", options("a.jsonl")).first;
  const auto all = tokenizer_.ids();
  EXPECT_EQ(around, (Tokens{all.at("<s>"), all.at("the"), all.at("</s>")}));
}

TEST_F(TokenizedDataTest, APromptIsNotCountedAndTheEndIsAppendedOnce) {
  const std::int32_t end = tokenizer_.ids().at("</s>");
  for (const std::string completion : {"\"and so\"", "\"and so</s>\""}) {
    const auto answered =
        row(R"({"prompt": "the one ", "completion": )" + completion + "}", options("a.jsonl"));
    EXPECT_EQ(std::count(answered.first.begin(), answered.first.end(), end), 1);
    EXPECT_EQ(answered.first.back(), end);
    EXPECT_EQ(counted(answered), "_____ and so</s>");
  }
  // A token that crosses the border belongs to the completion. Here " and" is one token.
  EXPECT_EQ(counted(row(R"({"prompt": "a ", "completion": "and"})", options("a.jsonl"))),
            "_ and</s>");
  EXPECT_EQ(counted(row(R"({"prompt": "a", "completion": " and"})", options("a.jsonl"))),
            "_ and</s>");
  tokenizer_.begin = "<s>";
  tokenizer_.end = "</s>";
  write_tokenizer();
  const auto around = row(R"({"prompt": "a", "completion": " and"})", options("a.jsonl"));
  EXPECT_EQ(counted(around), "__ and</s>");
  EXPECT_EQ(around.first.size(), 4u);
}

constexpr const char* kTalk =
    R"({"messages": [{"role": "user", "content": "the"}, {"role": "assistant", "content": [)"
    R"({"type": "text", "text": "\n"}, {"type": "text", "text": "\nand"}]}, )"
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "or", "name": "x"}]})";

TEST_F(TokenizedDataTest, AConversationIsItsTemplateWithSpecialTokens) {
  TokenDataOptions all = options("a.jsonl", 200);
  const auto talk = row(kTalk, all);
  EXPECT_EQ(talk.first,
            tokenizer().encode("<|im_start|>user\nthe<|im_end|>\n<|im_start|>assistant\n\n\nand"
                               "<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
                               "or<|im_end|>\n",
                               false));
  EXPECT_EQ(std::count(talk.first.begin(), talk.first.end(), tokenizer_.ids().at("<|im_end|>")), 4);
  EXPECT_EQ(talk.second, talk.first);
  all.data.assistant_only_loss = true;
  const std::string spoken = counted(row(kTalk, all));
  std::string short_spoken;
  std::unique_copy(spoken.begin(), spoken.end(), std::back_inserter(short_spoken),
                   [](char a, char b) { return a == '_' && b == '_'; });
  // The token of two line ends crosses the border.
  EXPECT_EQ(short_spoken, "_\n\n\nand<|im_end|>_or<|im_end|>_");
}

TEST_F(TokenizedDataTest, FindsAssistantTextWhenTokensCrossTurns) {
  TokenDataOptions mistral = options("a.jsonl", 400);
  mistral.data.chat_template = ChatTemplate::kMistral;
  mistral.data.assistant_only_loss = true;
  const auto instructed = row(kTalk, mistral);
  const std::string spoken = counted(instructed);
  EXPECT_NE(spoken.find("and</s>_"), std::string::npos) << spoken;
  EXPECT_TRUE(spoken.ends_with("or</s>")) << spoken;
  EXPECT_EQ(spoken.find("the"), std::string::npos) << spoken;
  EXPECT_EQ(
      instructed.first,
      tokenizer().encode("<s> [INST] the [/INST] \n\nand</s> [INST] a [/INST] or</s>", false));
}

TEST_F(TokenizedDataTest, ACompletionOfMessagesIsWhatFollowsThePrompt) {
  const auto answered = row(
      R"({"prompt": [{"role": "user", "content": "the"}], "completion": [{"role": "assistant", )"
      R"("content": "and"}]})",
      options("a.jsonl", 200));
  const std::string text = counted(answered);
  EXPECT_EQ(text.substr(text.find_first_not_of('_')), "and<|im_end|>\n");
  EXPECT_EQ(answered.first, tokenizer().encode("<|im_start|>user\nthe<|im_end|>\n<|im_start|>"
                                               "assistant\nand<|im_end|>\n",
                                               false));
}

// Words, lines, ideographs, and stretches without any place to cut.
std::string random_text(std::uint64_t seed, std::size_t size) {
  const std::vector<std::string> parts = {" the",         " and",
                                          "or",           ".\n",
                                          "\n\n",         " ",
                                          "   ",          "a",
                                          "1234",         "'s",
                                          "\xe4\xb8\x80", "\n",
                                          "er",           "\xe3\x80\x82",
                                          "<s>",          "\r\n",
                                          "!?",           "\xc3\xbf",
                                          "\t",           "then other words, and more"};
  std::string text;
  while (text.size() < size) text += parts[next_bits(seed) % parts.size()];
  return text;
}

TEST_F(TokenizedDataTest, FilesAreDocumentsInARowWithTheTokensOfTheWhole) {
  tokenizer_.begin = "<s>";
  tokenizer_.end = "</s>";
  write_tokenizer();
  TokenDataOptions all = options("0.txt", 7);
  all.data.files.clear();
  Tokens expected;
  for (int i = 0; i < 4; ++i) {
    // Longer than one piece, a few bytes, empty, and several pieces.
    const std::string text = random_text(5, std::vector<std::size_t>{30'000, 11, 0, 100'000}[i]);
    all.data.files.push_back(folder_ / (std::to_string(i) + ".txt"));
    test::write_file(all.data.files.back(), text);
    if (text.empty()) continue;
    const Tokens ids = tokenizer().encode(text);
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  const TokenData data(all);
  ASSERT_EQ(data.num_sequences(), static_cast<std::int64_t>(expected.size() / 7));
  EXPECT_FALSE(data.unigram_entropy());
  expected.resize(expected.size() / 7 * 7);
  EXPECT_EQ(data.read({0}, data.num_sequences()).ids, expected);
  all.data.shuffle = true;
  const TokenData shuffled(all);
  std::vector<int> mismatches(3);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < mismatches.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t i = 0; i < 60; ++i) {
        const Tokens ids = shuffled.read({i * 31 + static_cast<std::int64_t>(t)}, 1).ids;
        mismatches[t] +=
            std::search(expected.begin(), expected.end(), ids.begin(), ids.end()) == expected.end();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mismatches, std::vector<int>(3, 0));
}

TEST_F(TokenizedDataTest, ATextInPiecesHasTheTokensOfTheWholeInEveryKindOfTokenizer) {
  for (const std::string name :
       {"gpt2", "llama2", "llama3", "mistral", "gemma", "qwen2", "deepseek", "o200k"}) {
    const std::string file = SLUICE_TEST_DATA "/reference/tokenizers/" + name + ".json";
    const Tokenizer kind = Tokenizer::read(file);
    const std::string text = random_text(9, 60'000);
    test::write_file(folder_ / "a.txt", text);
    TokenDataOptions pieces = options("a.txt", 1);
    pieces.data.tokenizer = file;
    pieces.vocab_size = kind.num_ids();
    const TokenData data(pieces);
    EXPECT_TRUE(data.read({0}, data.num_sequences()).ids == kind.encode(text)) << name;
  }
}

TEST_F(TokenizedDataTest, TextWithoutAPlaceToCutIsCutBetweenCharacters) {
  std::string text;
  while (text.size() < 1'200'000) text += "\xe4\xb8\x80\xe3\x80\x82";
  test::write_file(folder_ / "a.txt", text);
  const TokenData data(options("a.txt", 999));
  const TokenRows rows = data.read({0}, data.num_sequences());
  EXPECT_TRUE(tokenizer().decode(rows.ids) == text.substr(0, rows.ids.size()));
}

TEST_F(TokenizedDataTest, PackedTextRestartsPositionsWhereDocumentsBegin) {
  TokenDataOptions packed = options("0.txt", 4);
  packed.data.files = {folder_ / "0.txt", folder_ / "1.txt", folder_ / "2.txt"};
  packed.data.pack = true;
  test::write_file(packed.data.files[0], "xyzxyz");
  test::write_file(packed.data.files[1], "x");
  test::write_file(packed.data.files[2], "zyxzy");
  const TokenRows rows = TokenData(packed).read({0}, 3);
  EXPECT_EQ(rows.position_ids, (Tokens{0, 1, 2, 3, 0, 1, 0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(rows.labels, (Tokens{-100, 'y', 'z', 'x', 'y', 'z', -100, -100, 'y', 'x', 'z', 'y'}));
}

TEST_F(TokenizedDataTest, AFileThatChangedIsNoticed) {
  test::write_file(folder_ / "a.txt", random_text(1, 20'000));
  const TokenData data(options("a.txt", 100));
  test::write_file(folder_ / "a.txt", std::string(20'000, 'q'));
  EXPECT_EQ(error_of([&] { data.read({0}, 1); }).kind(), ErrorKind::kInput);
}

TEST_F(TokenizedDataTest, TheTokenizerMayBeAnyFileOrFolder) {
  test::write_file(folder_ / "a.jsonl", R"({"text": "the"})");
  TokenDataOptions named = options("a.jsonl");
  named.model_directory = "";
  EXPECT_EQ(TokenData(named).read({0}, 1).ids[0], 't');
  for (const char* path : {"model", "model/tokenizer.json"}) {
    named.data.tokenizer = folder_ / path;
    EXPECT_EQ(TokenData(named).read({0}, 1).ids[0], tokenizer_.ids().at("the")) << path;
  }
  named.data.tokenizer = folder_ / "none";
  const Error error = error_of([&] { TokenData data(named); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_NE(error.fact().find("data.tokenizer"), std::string::npos);
}

TEST_F(TokenizedDataTest, TheTokenizersIdsFitTheModelButForSpecialTokens) {
  test::write_file(folder_ / "a.jsonl", R"({"text": "the"})");
  TokenDataOptions small = options("a.jsonl");
  const int num_special = static_cast<int>(tokenizer_.special.size());
  small.vocab_size = tokenizer_.size() - num_special;
  EXPECT_NO_THROW(TokenData{small});
  test::write_file(folder_ / "a.jsonl", R"({"text": "the<s>"})");
  EXPECT_NE(error_of([&] { TokenData data(small); }).fact().find("'<s>'"), std::string::npos);
  --small.vocab_size;
  test::write_file(folder_ / "a.jsonl", R"({"text": "the"})");
  const Error error = error_of([&] { TokenData data(small); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_NE(error.fact().find("a vocabulary of"), std::string::npos) << error.what();
}

}  // namespace
}  // namespace sluice
