#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer_directory.h"
#include "sluice/data.h"
#include "sluice/error.h"
#include "sluice/tokenizer.h"
#include "support/expect_error.h"
#include "support/small_tokenizer.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using test::error_of;
using test::TempDirectory;

class TokenizerChoiceTest : public testing::Test {
 protected:
  TokenizerChoiceTest() {
    std::filesystem::create_directories(folder_ / "model");
    test::write_file(folder_ / "a.txt", "some text");
    test::write_file(folder_ / "ids.jsonl", "{\"input_ids\": [1, 2]}\n");
    test::write_file(folder_ / "text.jsonl", "{\"text\": \"some text\"}\n");
  }
  TokenDataOptions options(const std::string& file) const {
    TokenDataOptions options;
    options.data.files = {folder_ / file};
    options.seq_len = 9;
    options.vocab_size = 300;
    options.model_directory = folder_ / "model";
    return options;
  }
  Error refused(const std::string& file) const {
    return error_of([&] { TokenData data(options(file)); });
  }

  const TempDirectory folder_;
};

TEST_F(TokenizerChoiceTest, AnotherTokenizerFileIsRefusedWithTheLineThatConvertsIt) {
  for (const std::string name :
       {"vocab.json", "merges.txt", "tokenizer.model", "tokenizer.model.v3", "tekken.json",
        "spiece.model", "vocab.txt", "tokenizer_config.json", "sentencepiece.bpe.model",
        "qwen.tiktoken", "special_tokens_map.json", "vocab.bpe", "encoder.json", "spm.model",
        "gpt2-merges.txt", "tokenizer.bin", "Tokenizer.json"}) {
    const std::string path = folder_ / ("model/" + name);
    test::write_file(path, "{}");
    for (const std::string file : {"a.txt", "text.jsonl"}) {
      const Error error = refused(file);
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << name;
      EXPECT_NE(error.fact().find("'" + name + "'"), std::string::npos) << error.fact();
      EXPECT_NE(error.remedy().find("python -c \"from transformers import"), std::string::npos);
      EXPECT_NE(error.remedy().find("save_pretrained"), std::string::npos);
    }
    EXPECT_EQ(TokenData(options("ids.jsonl")).num_sequences(), 1) << "ids need none";
    const Error named = error_of([&] { Tokenizer::read(folder_ / "model"); });
    EXPECT_NE(named.fact().find("'" + name + "'"), std::string::npos) << named.fact();
    if (!name.ends_with(".json")) {
      TokenDataOptions itself = options("a.txt");
      itself.data.tokenizer = path;
      EXPECT_NE(error_of([&] { TokenData data(itself); }).fact().find("is not a tokenizer.json"),
                std::string::npos);
    }
    TokenDataOptions bytes = options("a.txt");
    bytes.data.tokenizer = "bytes";
    EXPECT_TRUE(TokenData(bytes).warnings().empty());
    std::filesystem::remove(path);
  }
}

TEST_F(TokenizerChoiceTest, ALinkThatLeadsNowhereIsRefused) {
  const std::string path = folder_ / "model/tokenizer.json";
  for (const std::string target : {"../../blobs/0123abcd", "tokenizer.json"}) {
    std::filesystem::create_symlink(target, path);
    const Error error = refused("a.txt");
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(error.fact().find("is a link to"), std::string::npos) << error.fact();
    EXPECT_NE(error_of([&] { Tokenizer::read(folder_ / "model"); }).fact().find("is a link to"),
              std::string::npos);
    std::filesystem::remove(path);
  }
}

TEST_F(TokenizerChoiceTest, WarnsWhenFallingBackToBytes) {
  for (const std::string name : {"config.json", "generation_config.json", "model.safetensors",
                                 "README.md", "chat_template.jinja", "tokenizer.py"})
    test::write_file(folder_ / ("model/" + name), "{}");
  for (const std::string file : {"a.txt", "text.jsonl"}) {
    const std::vector<std::string> found = TokenData(options(file)).warnings();
    ASSERT_EQ(found.size(), 1u) << file;
    EXPECT_NE(found.front().find("every byte of text is a token"), std::string::npos);
    EXPECT_NE(found.front().find(folder_ / "model"), std::string::npos);
  }
  EXPECT_TRUE(TokenData(options("ids.jsonl")).warnings().empty());
  TokenDataOptions nowhere = options("a.txt");
  nowhere.model_directory = "";
  EXPECT_EQ(TokenData(nowhere).warnings().size(), 1u);
  test::write_file(folder_ / "model/tokenizer.json", test::SmallTokenizer().json());
  EXPECT_TRUE(TokenData(options("a.txt")).warnings().empty());
}

TEST_F(TokenizerChoiceTest, AGitLfsPointerIsNamed) {
  test::write_file(folder_ / "model/tokenizer.json",
                   "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 17\n");
  EXPECT_EQ(refused("a.txt").fact(), "a Git LFS pointer: run git lfs pull");
  EXPECT_EQ(error_of([&] { Tokenizer::read(folder_ / "model"); }).fact(),
            "a Git LFS pointer: run git lfs pull");
}

}  // namespace
}  // namespace sluice
