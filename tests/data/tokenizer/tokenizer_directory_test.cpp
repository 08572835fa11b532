// Files beside tokenizer.json. The expected ids come from transformers' AutoTokenizer.
// tests/oracle/check_tokenizer_files.py compares many more cases.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "sluice/error.h"
#include "sluice/tokenizer.h"
#include "support/expect_error.h"
#include "support/small_tokenizer.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using Ids = std::vector<std::int32_t>;
using Files = std::map<std::string, std::string>;

constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kMap = "special_tokens_map.json";

// A directory whose tokenizer has the 256 bytes, "<s>" (256) and "</s>" (257), plus `files`.
class TokenizerDirectoryTest : public testing::Test {
 protected:
  std::string directory(const Files& files) {
    const std::string path = folder_ / std::to_string(++count_);
    test::SmallTokenizer tokenizer;
    tokenizer.special = {"<s>", "</s>"};
    test::write_file(path + "/tokenizer.json", tokenizer.json());
    for (const auto& [name, text] : files) test::write_file(path + "/" + name, text);
    return path;
  }
  Ids ids(const std::string& text, const Files& files) {
    return Tokenizer::read(directory(files)).encode(text);
  }
  void expect_refused(const Files& files, const std::string& what, const std::string& where) {
    const std::string path = directory(files);
    const Error error = test::error_of([&] { Tokenizer::read(path); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.where(), path + "/" + where) << error.what();
    EXPECT_NE(error.fact().find(what), std::string::npos) << error.what();
    EXPECT_FALSE(error.remedy().empty());
  }

  const test::TempDirectory folder_;
  int count_ = 0;
};

TEST_F(TokenizerDirectoryTest, TokensThatOnlyAFileBesideDeclaresAreTokens) {
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {kConfig, R"({"additional_special_tokens": ["<new>"]})"},
           {kConfig, R"({"extra_special_tokens": {"img": "<new>"}})"},
           {kConfig, R"({"extra_special_tokens": ["<new>"]})"},
           {kConfig, R"({"pad_token": "<new>"})"},
           {kConfig, R"({"image_token": "<new>"})"},
           {kConfig, R"({"added_tokens_decoder": {"259": {"content": "<new>"}}})"},
           {"added_tokens.json", R"({"<new>": 258})"},
           {kMap, R"({"pad_token": "<new>"})"},
           {kMap, R"({"additional_special_tokens": ["<new>"]})"}}) {
    EXPECT_EQ(ids("<new> x", {{name, text}}), (Ids{258, ' ', 'x'})) << name << " " << text;
  }
  EXPECT_EQ(ids("<new>", {}), (Ids{'<', 'n', 'e', 'w', '>'}));
}

TEST_F(TokenizerDirectoryTest, ATokenHasTheFlagsThatItsFileGivesIt) {
  EXPECT_EQ(ids("<new> x", {{kConfig, R"({"extra_special_tokens":
                 [{"__type": "AddedToken", "content": "<new>", "rstrip": true}]})"}}),
            (Ids{258, 'x'}));
  // The flags also replace those in tokenizer.json.
  EXPECT_EQ(ids("<s> x", {{kConfig, R"({"added_tokens_decoder":
                 {"256": {"content": "<s>", "rstrip": true, "special": true}}})"}}),
            (Ids{256, 'x'}));
}

TEST_F(TokenizerDirectoryTest, ObjectsOfTheOlderMapAreSpecialWhereTheyHaveANameOfTheirOwn) {
  // Special tokens are matched before normalization, so this one takes the space of " a".
  EXPECT_EQ(ids("<new> a", {{kMap, R"({"eos_token": {"content": " a", "normalized": true},
                 "pad_token": {"content": "<new>", "rstrip": true, "special": false}})"}}),
            (Ids{259, 'a'}));
  const auto split = [&](const std::string& map) {
    return ids("<new>", {{kMap, map}, {kConfig, R"({"split_special_tokens": true})"}});
  };
  EXPECT_EQ(split(R"({"pad_token": {"content": "<new>"}})"), (Ids{'<', 'n', 'e', 'w', '>'}));
  EXPECT_EQ(split(R"({"additional_special_tokens":
                 [{"__type": "AddedToken", "content": "<new>"}]})"),
            (Ids{258}));
}

TEST_F(TokenizerDirectoryTest, NewTokensHaveIdsInTheOrderOfTransformers) {
  // First by number in added_tokens_decoder, then named tokens, then listed tokens.
  EXPECT_EQ(ids("<new><two>", {{kConfig, R"({"added_tokens_decoder":
                 {"9": {"content": "<two>"}, "10": {"content": "<new>"}}})"}}),
            (Ids{259, 258}));
  EXPECT_EQ(ids("<two><new>", {{kConfig, R"({"additional_special_tokens": ["<two>"],
                 "pad_token": "<new>"})"}}),
            (Ids{259, 258}));
  // special_tokens_map.json takes precedence, but is ignored if there is an added_tokens_decoder.
  const std::string map = R"({"pad_token": "<new>"})";
  EXPECT_EQ(ids("<two><new>", {{kConfig, R"({"additional_special_tokens": ["<two>"],
                 "pad_token": "<two>"})"},
                               {kMap, map}}),
            (Ids{259, 258}));
  EXPECT_EQ(ids("<new>", {{kConfig, R"({"added_tokens_decoder": {}})"}, {kMap, map}}).size(), 5u);
  // The map replaces a token of a model-specific name only if the name holds an object, not a plain
  // text.
  const std::string own = R"({"image_token": "<new>"})";
  EXPECT_EQ(ids("<new>", {{kConfig, R"({"image_token":
                 {"__type": "AddedToken", "content": "<two>"}})"},
                          {kMap, own}}),
            (Ids{258}));
  EXPECT_EQ(ids("<two>", {{kConfig, R"({"image_token": "<two>"})"}, {kMap, own}}), (Ids{258}));
}

TEST_F(TokenizerDirectoryTest, ASpaceInFrontIsPutByTheClassesThatDo) {
  const auto of_class = [&](const std::string& name, const std::string& more) {
    return ids("x<s> y", {{kConfig, R"({"tokenizer_class": ")" + name + "\"" + more + "}"}});
  };
  const Ids plain = {'x', 256, ' ', 'y'}, prefixed = {' ', 'x', 256, ' ', 'y'};
  for (const char* name : {"GPT2Tokenizer", "Qwen2TokenizerFast", "CodeGenTokenizer"}) {
    EXPECT_EQ(of_class(name, ""), plain) << name;
    EXPECT_EQ(of_class(name, R"(, "add_prefix_space": false)"), plain) << name;
    EXPECT_EQ(of_class(name, R"(, "add_prefix_space": true)"), prefixed) << name;
  }
  EXPECT_EQ(of_class("PreTrainedTokenizerFast", R"(, "add_prefix_space": true)"), plain);
}

TEST_F(TokenizerDirectoryTest, TheClassIsChosenAsAutoTokenizerChoosesIt) {
  // Some classes normalize, which merges a combining accent with its letter. tokenizer.json does
  // not mention this.
  const Ids apart = {'e', 204, 129}, composed = {195, 169};
  const auto of = [&](const std::string& model, const std::string& config) {
    Files files = {{"config.json", R"({"model_type": ")" + model + R"("})"}};
    if (!config.empty()) files[kConfig] = R"({"tokenizer_class": ")" + config + R"("})";
    return ids("e\xCC\x81", files);
  };
  EXPECT_EQ(of("llama", ""), apart);
  EXPECT_EQ(of("qwen3", ""), composed);
  EXPECT_EQ(of("qwen3", "PreTrainedTokenizerFast"), apart);
  EXPECT_EQ(of("qwen2", "PreTrainedTokenizerFast"), composed);
  EXPECT_EQ(of("mistral", "Qwen2Tokenizer"), apart);
  EXPECT_EQ(of("llama", "LlamaTokenizer"), apart) << "a tokenizer of bytes is none of Llama's";
  EXPECT_EQ(ids("12 <|endoftext|>", {{"config.json", R"({"model_type": "gpt2"})"}}),
            (Ids{'1', '2', ' ', 258}));
}

TEST_F(TokenizerDirectoryTest, SpecialTokensAreSplitWhereTheSettingSaysIt) {
  EXPECT_EQ(ids("<s>a", {{kConfig, R"({"split_special_tokens": true})"}}),
            (Ids{'<', 's', '>', 'a'}));
  EXPECT_EQ(ids("<s>", {{kConfig, R"({"split_special_tokens": false})"}}), (Ids{256}));
}

TEST_F(TokenizerDirectoryTest, TokensThatBeginAndEndATextAreThoseOfTransformers) {
  const auto ends = [&](const Files& files) {
    const Tokenizer tokenizer = Tokenizer::read(directory(files));
    return tokenizer.begin_token() + " " + tokenizer.end_token();
  };
  EXPECT_EQ(ends({}), " ");
  EXPECT_EQ(ends({{kConfig, R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})"}}),
            "<s> </s>");
  EXPECT_EQ(ends({{kConfig, R"({"eos_token": "<s>"})"}, {kMap, R"({"eos_token": "</s>"})"}}),
            " </s>");
  EXPECT_EQ(ends({{kConfig, R"({"tokenizer_class": "GPT2Tokenizer", "bos_token": null})"}}),
            " <|endoftext|>");
}

TEST_F(TokenizerDirectoryTest, WhatIsNotFollowedIsRefusedByName) {
  const auto refused = [&](const std::string& config, const std::string& what,
                           const std::string& field) {
    expect_refused({{kConfig, config}}, what, std::string(kConfig) + ": field '" + field + "'");
  };
  refused(R"({"tokenizer_class": "RobertaTokenizerFast"})", "'RobertaTokenizer'",
          "tokenizer_class");
  refused(R"({"tokenizer_class": "GemmaTokenizer"})", "unknown token '<unk>'", "tokenizer_class");
  refused(R"({"auto_map": {"AutoTokenizer": [null, "x.Y"]}})", "with its own code", "auto_map");
  refused(R"({"fix_mistral_regex": true})", "'fix_mistral_regex'", "fix_mistral_regex");
  refused(R"({"fast_tokenizer_files": ["tokenizer.4.0.0.json"]})", "'fast_tokenizer_files'",
          "fast_tokenizer_files");
  refused(R"({"init_inputs": [1]})", "'init_inputs'", "init_inputs");
  refused(R"({"image_token": "<new>", "audio_token": "<two>"})", "the order of keys",
          "image_token");
  refused(R"({"added_tokens_decoder": {"x": {"content": "<new>"}}})", "an id as the key",
          "added_tokens_decoder.x");
  refused(R"({"pad_token": 3})", "a string", "pad_token");
  expect_refused({{"config.json", R"({"model_type": "bert"})"}}, "'BertTokenizer'",
                 "config.json: field 'model_type'");
  expect_refused({{"added_tokens.json", R"({"<s>": 3})"}},
                 "a token with another id than in tokenizer.json",
                 "added_tokens.json: field '<s>'");
  expect_refused({{kMap, R"({"add_bos_token": true})"}}, "the setting",
                 std::string(kMap) + ": field 'add_bos_token'");
}

TEST_F(TokenizerDirectoryTest, AcceptsSettingsThatDoNotAffectIds) {
  EXPECT_EQ(ids("<s> x", {{kConfig, R"({"model_max_length": 4, "padding_side": "left",
                 "no_key_of_transformers": true, "add_bos_token": true, "fix_mistral_regex": false,
                 "auto_map": {"AutoConfig": "x.Y"}, "fast_tokenizer_files": ["tokenizer.json"],
                 "tokenizer_class": "NoSuchTokenizer", "chat_template": "x"})"}}),
            (Ids{256, ' ', 'x'}));
}

TEST_F(TokenizerDirectoryTest, AFileThatLiesThereCountsAsTheDirectoryDoes) {
  const std::string path = directory({{kConfig, R"({"pad_token": "<new>"})"}});
  EXPECT_EQ(Tokenizer::read(path + "/tokenizer.json").encode("<new>"), (Ids{258}));
}

}  // namespace
}  // namespace sluice
