#include "data/row_fields.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sluice/data.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/small_tokenizer.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using test::error_of;
using test::TempDirectory;
using Tokens = std::vector<std::int32_t>;

class RowFieldsTest : public testing::Test {
 protected:
  RowFieldsTest() {
    test::SmallTokenizer tokenizer;
    tokenizer.special = {"<|im_start|>", "<|im_end|>", "</s>"};
    vocabulary_ = tokenizer.size();
    test::write_file(folder_ / "model/tokenizer.json", tokenizer.json());
    test::write_file(folder_ / "model/tokenizer_config.json", R"({"eos_token": "</s>"})");
  }
  TokenDataOptions options(const std::string& row) const {
    test::write_file(folder_ / "a.jsonl", row + "\n");
    TokenDataOptions options;
    options.data.files = {folder_ / "a.jsonl"};
    options.data.shuffle = false;
    options.data.pad = Padding::kLongest;
    options.seq_len = 400;
    options.vocab_size = vocabulary_;
    options.model_directory = folder_ / "model";
    return options;
  }
  Error refused(const std::string& row, bool assistant_only = false) const {
    TokenDataOptions of = options(row);
    of.data.assistant_only_loss = assistant_only;
    Error error = error_of([&] { TokenData data(of); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << row;
    EXPECT_EQ(error.where().rfind(folder_ / "a.jsonl:1", 0), 0u) << error.where();
    return error;
  }
  void expect_refused(const std::string& row, const std::string& name) const {
    const Error error = refused(row);
    EXPECT_NE(error.fact().find("'" + name + "'"), std::string::npos) << error.fact();
    EXPECT_FALSE(error.remedy().empty()) << row;
  }
  std::vector<std::string> warnings(const std::string& row) const {
    return TokenData(options(row)).warnings();
  }
  std::string counted(const std::string& row, bool assistant_only) const {
    TokenDataOptions of = options(row);
    of.data.assistant_only_loss = assistant_only;
    const TokenRows rows = TokenData(of).read({0}, 1);
    const Tokenizer tokenizer = Tokenizer::read(folder_ / "model");
    std::string text;
    for (std::int64_t i = 0; i < rows.lengths.front(); ++i) {
      const std::int32_t label = rows.labels[static_cast<std::size_t>(i)];
      if (label >= 0)
        text += tokenizer.decode(Tokens{label});
      else if (text.empty() || text.back() != '_')
        text += "_";
    }
    return text;
  }

  const TempDirectory folder_;
  std::int64_t vocabulary_ = 0;
};

TEST_F(RowFieldsTest, MasksAndOtherFieldsThatAskForSomethingAreRefusedByName) {
  const std::string ids = R"({"input_ids": [5, 6, 7], )";
  for (const std::string name :
       {"loss_mask", "completion_mask", "assistant_masks", "assistant_mask", "response_mask"})
    expect_refused(ids + "\"" + name + "\": [0, 1, 1]}", name);
  expect_refused(ids + R"("prompt_mask": [1, 0, 0]})", "prompt_mask");
  for (const std::string name : {"seq_lengths", "seq_lens", "cu_seqlens"})
    expect_refused(ids + "\"" + name + "\": [1, 2]}", name);
  expect_refused(ids + R"("segment_ids": [0, 1, 1]})", "segment_ids");
  expect_refused(ids + R"("loss_weight": 0.5})", "loss_weight");
  expect_refused(ids + R"("weight": 0})", "weight");
  expect_refused(ids + R"("label": [5, 6, 7]})", "label");
  expect_refused(R"({"text": "a", "label": 1})", "label");
  expect_refused(R"({"prompt": "a", "completion": "b", "label": false})", "label");
  expect_refused(R"({"text": "a", "images": ["a.png"]})", "images");
  expect_refused(R"({"text": "a", "tools": [{"name": "f"}]})", "tools");
  expect_refused(R"({"text": "a", "reasoning_content": "b"})", "reasoning_content");
  expect_refused(R"({"text": "a", "chosen": "b"})", "chosen");
  expect_refused(R"({"text": "a", "attention_mask": [1]})", "attention_mask");
  std::string many = R"({"text": "a")";
  for (int i = 0; i < 100; ++i) many += ", \"m" + std::to_string(i) + "\": 1";
  expect_refused(many + R"(, "loss_mask": [0]})", "loss_mask");
}

TEST_F(RowFieldsTest, AcceptsFieldsWithNeutralValues) {
  for (const std::string field :
       {R"("loss_mask": [1, 1, 1])", R"("loss_mask": null)", R"("loss_mask": [])", R"("tools": [])",
        R"("tools": null)", R"("tools": "")", R"("images": [])", R"("label": null)",
        R"("weight": 1)", R"("train": true)", R"("masked": false)",
        R"("token_type_ids": [0, 0, 0])", R"("segment_ids": [0, 0, 0])"}) {
    EXPECT_EQ(TokenData(options(R"({"input_ids": [5, 6, 7], )" + field + "}")).num_sequences(), 1)
        << field;
  }
}

TEST_F(RowFieldsTest, AFieldThatLooksLikeAKnownOneIsRefusedWithItsName) {
  const std::vector<std::pair<std::string, std::string>> slips = {
      {"lables", "labels"},
      {"Labels", "labels"},
      {"lable", "label"},
      {"attention_masks", "attention_mask"},
      {"attentionmask", "attention_mask"},
      {"position_id", "position_ids"},
      {"LossMask", "loss_mask"},
      {"loss-mask", "loss_mask"}};
  for (const auto& [slip, known] : slips) {
    const Error error = refused(R"({"input_ids": [5, 6, 7], ")" + slip + R"(": [1, 0, 0]})");
    EXPECT_NE(error.fact().find("'" + slip + "'"), std::string::npos) << error.fact();
    EXPECT_NE(error.remedy().find("'" + known), std::string::npos) << error.remedy();
  }
  EXPECT_NE(refused(R"({"input_id": [5, 6], "text": "a"})").remedy().find("'input_ids'"),
            std::string::npos);
  EXPECT_NE(refused(R"({"txt": "a"})").remedy().find("'text'"), std::string::npos);
  EXPECT_NE(refused(R"({"mesages": []})").remedy().find("'messages'"), std::string::npos);
}

TEST_F(RowFieldsTest, MetadataIsNamedOnceAsNotRead) {
  const std::vector<std::string> found = warnings(
      "{\"text\": \"a</s>\", \"id\": 7, \"source\": \"web\"}\n"
      "{\"text\": \"b</s>\", \"id\": 8, \"url\": \"x\"}");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.front(), "fields of rows that are not read: id, source, url");
  EXPECT_TRUE(warnings(R"({"input_ids": [1, 2], "labels": [1, 2]})").empty());
}

TEST_F(RowFieldsTest, PreferencesAndUnknownPairsAreRefusedWithAWayOut) {
  for (const std::string row :
       {R"({"prompt": "a", "chosen": "b", "rejected": "c"})",
        R"({"prompt": "a", "completion": "x", "chosen": "b", "rejected": "c"})"}) {
    const Error error = refused(row);
    EXPECT_NE(error.fact().find("preference"), std::string::npos) << error.fact();
    EXPECT_NE(error.remedy().find("python -c \"import json;"), std::string::npos);
    EXPECT_EQ(error.remedy().find('\n'), std::string::npos);
  }
  const Error pair = refused(R"({"question": "a", "answer": "b"})");
  EXPECT_NE(pair.fact().find("'question' and 'answer'"), std::string::npos) << pair.fact();
  EXPECT_EQ(pair.remedy(),
            "set `data.fields` = { prompt = \"question\", completion = \"answer\" }");
  EXPECT_EQ(
      TokenData(options(R"({"instruction": "a", "output": "b", "text": "c"})")).num_sequences(), 1);
}

std::string talk(const std::string& first, const std::string& last) {
  return R"({"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "cd")" +
         first + R"(}, {"role": "user", "content": "ef"}, {"role": "assistant", "content": "gh")" +
         last + "}]}";
}

TEST_F(RowFieldsTest, MessagesWithZeroWeightAreNotCounted) {
  const std::string all = "gh<|im_end|>";
  for (const std::string flag : {R"(, "weight": 0)", R"(, "weight": 0.0)", R"(, "train": false)",
                                 R"(, "train": 0)", R"(, "weight": 0, "train": false)"}) {
    EXPECT_EQ(counted(talk(flag, ""), true), "_gh<|im_end|>_") << flag;
    EXPECT_EQ(counted(talk(flag, R"(, "weight": 1)"), true), "_gh<|im_end|>_") << flag;
    // Without assistant_only_loss all other messages count, including their markers.
    EXPECT_EQ(counted(talk(flag, ""), false),
              "<|im_start|>user\nab<|im_end|>\n_<|im_start|>user\nef<|im_end|>\n"
              "<|im_start|>assistant\ngh<|im_end|>\n")
        << flag;
  }
  for (const std::string flag :
       {"", R"(, "weight": 1)", R"(, "weight": null)", R"(, "train": true)", R"(, "name": "x")",
        R"(, "tool_calls": [])", R"(, "reasoning_content": null)", R"(, "loss_weight": 1.0)",
        R"(, "masked": false)"})
    EXPECT_EQ(counted(talk(flag, ""), true), "_cd<|im_end|>_gh<|im_end|>_") << flag;
  const std::string completion =
      R"({"prompt": [{"role": "user", "content": "ab"}], "completion": [)"
      R"({"role": "assistant", "content": "cd", "weight": 0}, {"role": "user", "content": "ef"}, )"
      R"({"role": "assistant", "content": "gh"}]})";
  EXPECT_EQ(counted(completion, true), "_gh<|im_end|>_");
}

TEST_F(RowFieldsTest, OtherFieldsOfAMessageAreRefusedByName) {
  for (const std::string name : {"loss_weight", "trainable", "loss_mask"})
    expect_refused(talk(", \"" + name + "\": 0", ""), name);
  expect_refused(talk(R"(, "masked": true)", ""), "masked");
  expect_refused(talk(R"(, "weight": 0.5)", ""), "weight");
  expect_refused(talk(R"(, "weight": "0")", ""), "weight");
  expect_refused(talk(R"(, "weight": [0])", ""), "weight");
  expect_refused(talk(R"(, "weight": 0, "train": true)", ""), "weight");
  expect_refused(talk(R"(, "tool_calls": [{"type": "function"}])", ""), "tool_calls");
  expect_refused(talk(R"(, "function_call": {"name": "f"})", ""), "function_call");
  expect_refused(talk(R"(, "reasoning_content": "x")", ""), "reasoning_content");
  expect_refused(talk(R"(, "thinking": "x")", ""), "thinking");
  expect_refused(talk(R"(, "tool_call_id": "1")", ""), "tool_call_id");
  expect_refused(talk(R"(, "some_other_field": true)", ""), "some_other_field");
  EXPECT_NE(refused(talk(R"(, "wieght": 0)", "")).remedy().find("'weight'"), std::string::npos);
  const std::string asked = R"({"messages": [{"role": "user", "content": "a", "train": true}, )"
                            R"({"role": "assistant", "content": "b"}]})";
  EXPECT_NE(refused(asked, true).remedy().find("data.assistant_only_loss"), std::string::npos);
  EXPECT_EQ(TokenData(options(asked)).num_sequences(), 1);
}

TEST_F(RowFieldsTest, RolesThatNoFormatWritesAreRefusedWithTheOneThatIsMeant) {
  const std::vector<std::pair<std::string, std::string>> roles = {
      {"model", "assistant"}, {"gpt", "assistant"}, {"Assistant", "assistant"}, {"human", "user"},
      {"USER", "user"},       {"function", "tool"}, {"asistant", "assistant"},  {" user", "user"}};
  for (const auto& [role, meant] : roles) {
    const Error error = refused(R"({"messages": [{"role": ")" + role + R"(", "content": "a"}]})");
    EXPECT_NE(error.fact().find("'" + role + "'"), std::string::npos) << error.fact();
    EXPECT_NE(error.remedy().find("'" + meant + "'"), std::string::npos) << error.remedy();
  }
  for (const std::string role : {"system", "user", "assistant", "tool", "developer"}) {
    EXPECT_EQ(TokenData(options(R"({"messages": [{"role": ")" + role + R"(", "content": "a"}]})"))
                  .num_sequences(),
              1);
  }
}

TEST_F(RowFieldsTest, AChatFormatNeedsItsSpecialTokens) {
  test::SmallTokenizer plain;
  plain.special = {"</s>"};
  test::write_file(folder_ / "model/tokenizer.json", plain.json());
  const std::string row = R"({"messages": [{"role": "user", "content": "a"}]})";
  for (const ChatTemplate format :
       {ChatTemplate::kChatml, ChatTemplate::kLlama3, ChatTemplate::kGemma}) {
    TokenDataOptions of = options(row);
    of.data.chat_template = format;
    const Error error = error_of([&] { TokenData data(of); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(error.fact().find("needs the special token"), std::string::npos) << error.fact();
  }
  TokenDataOptions by_family = options(row);
  by_family.model_family = "qwen3";
  EXPECT_EQ(error_of([&] { TokenData data(by_family); }).kind(), ErrorKind::kInput);
  TokenDataOptions mistral = options(row);
  mistral.data.chat_template = ChatTemplate::kMistral;
  EXPECT_EQ(TokenData(mistral).num_sequences(), 1);
}

TEST_F(RowFieldsTest, EveryTextEndsWithTheEndTokenWhereThatIsAskedFor) {
  const auto ids = [&](const std::string& row, bool append) {
    TokenDataOptions of = options(row);
    of.data.append_eos = append;
    const TokenRows rows = TokenData(of).read({0}, 1);
    return Tokens(rows.ids.begin(), rows.ids.begin() + rows.lengths.front());
  };
  const std::int32_t end = *Tokenizer::read(folder_ / "model").id_of("</s>");
  Tokens with = ids(R"({"text": "abc"})", false);
  EXPECT_EQ(with.back(), 'c');
  with.push_back(end);
  EXPECT_EQ(ids(R"({"text": "abc"})", true), with);
  EXPECT_EQ(ids(R"({"text": "abc</s>"})", true), with);
  const std::vector<std::string> noted = warnings(R"({"text": "abc"})");
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_NE(noted.front().find("`data.append_eos` = true"), std::string::npos) << noted.front();
  EXPECT_TRUE(warnings(R"({"text": "abc</s>"})").empty());
  EXPECT_TRUE(warnings(R"({"prompt": "a", "completion": "b"})").empty());

  TokenDataOptions files = options("{}");
  files.data.files = {folder_ / "1.txt", folder_ / "2.txt"};
  test::write_file(files.data.files[0], "ab");
  test::write_file(files.data.files[1], "cd</s>");
  files.data.append_eos = true;
  files.seq_len = 6;
  EXPECT_EQ(TokenData(files).read({0}, 1).ids, (Tokens{'a', 'b', end, 'c', 'd', end}));
  files.data.append_eos = false;
  EXPECT_EQ(error_of([&] { TokenData data(files); }).fact(),
            "the data has 5 tokens, not one whole sequence of 6");

  TokenDataOptions bytes = options(R"({"text": "abc"})");
  bytes.data.tokenizer = "bytes";
  bytes.data.append_eos = true;
  EXPECT_EQ(error_of([&] { TokenData data(bytes); }).kind(), ErrorKind::kUsage);
  TokenDataOptions of_ids = options("{}");
  of_ids.data.files = {folder_ / "a.bin"};
  test::write_file(of_ids.data.files[0], "abcdefgh");
  of_ids.data.append_eos = true;
  EXPECT_EQ(error_of([&] { TokenData data(of_ids); }).kind(), ErrorKind::kUsage);
}

}  // namespace
}  // namespace sluice
