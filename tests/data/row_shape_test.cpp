#include "data/row_shape.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/inspect.h"
#include "sluice/data.h"
#include "sluice/error.h"
#include "sluice/tokenizer.h"
#include "support/expect_error.h"
#include "support/gzip_file.h"
#include "support/small_tokenizer.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using test::error_of;
using Json = nlohmann::json;
using Tokens = std::vector<std::int32_t>;

class RowShapeTest : public testing::Test {
 protected:
  RowShapeTest() { write_tokenizer({"<|im_start|>", "<|im_end|>", "</s>"}); }
  void write_tokenizer(const std::vector<std::string>& special) {
    test::SmallTokenizer tokenizer;
    tokenizer.special = special;
    vocabulary_ = tokenizer.size();
    test::write_file(folder_ / "model/tokenizer.json", tokenizer.json());
    test::write_file(folder_ / "model/tokenizer_config.json", R"({"eos_token": "</s>"})");
  }
  TokenDataOptions options(const std::string& name, const std::string& content) const {
    test::write_file(folder_ / name, content);
    TokenDataOptions options;
    options.data.files = {folder_ / name};
    options.data.shuffle = false;
    options.data.pad = Padding::kLongest;
    options.seq_len = 600;
    options.vocab_size = vocabulary_;
    options.model_directory = folder_ / "model";
    return options;
  }
  TokenDataOptions row(const Json& row) const { return options("a.jsonl", row.dump() + "\n"); }

  // The text of the first row, with "[" and "]" around what the loss counts.
  std::string marked(const TokenDataOptions& of) const {
    const TokenRows rows = TokenData(of).read({0}, 1);
    const Tokenizer tokenizer = Tokenizer::read(folder_ / "model");
    std::string text;
    bool is_counted = false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows.lengths.front()); ++i) {
      if ((rows.labels[i] >= 0) != is_counted) text += is_counted ? "]" : "[";
      is_counted = rows.labels[i] >= 0;
      text += tokenizer.decode(Tokens{rows.ids[i]});
    }
    return text + (is_counted ? "]" : "");
  }
  static Error refused(const TokenDataOptions& of) {
    return error_of([&] { TokenData data(of); });
  }

  const test::TempDirectory folder_;
  std::int64_t vocabulary_ = 0;
};

Json message(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}
Json turn(const std::string& from, const std::string& value) {
  return {{"from", from}, {"value", value}};
}

std::string lines(const Json& rows) {
  std::string text;
  for (const Json& row : rows) text += row.dump() + "\n";
  return text;
}

TEST_F(RowShapeTest, TheSameDataInEveryShapeGivesTheSameIdsAndLabels) {
  const std::vector<std::pair<std::string, std::string>> asked = {
      {"Name a color.", "blue"},
      {"Add 2 and 3. \xc3\xa9", "5"},
      {"Say [this] {twice}", "\"a\"\nb"}};
  Json messages, sharegpt, alpaca, renamed;
  for (const auto& [question, answer] : asked) {
    messages.push_back({{"messages", {message("user", question), message("assistant", answer)}}});
    sharegpt.push_back({{"conversations", {turn("human", question), turn("gpt", answer)}}});
    alpaca.push_back({{"instruction", question}, {"input", ""}, {"output", answer}});
    renamed.push_back({{"q", question}, {"input", "not read"}, {"output", answer}});
  }
  std::vector<TokenDataOptions> all = {options("messages.jsonl", lines(messages)),
                                       options("sharegpt.jsonl", lines(sharegpt)),
                                       options("alpaca.jsonl", lines(alpaca)),
                                       options("messages.json", messages.dump(2)),
                                       options("alpaca.json", alpaca.dump()),
                                       options("messages.jsonl.gz", test::gzipped(lines(messages))),
                                       options("sharegpt.json.gz", test::gzipped(sharegpt.dump(1))),
                                       options("renamed.jsonl", lines(renamed))};
  all.back().data.fields = {{"instruction", "q"}, {"input", "none"}};
  for (const bool pack : {false, true}) {
    std::vector<TokenRows> read;
    for (TokenDataOptions& of : all) {
      of.data.train_on = {"assistant"};
      of.data.pack = pack;
      read.push_back(TokenData(of).read({0}, pack ? 1 : 3));
      EXPECT_EQ(read.back().ids, read.front().ids) << of.data.files.front();
      EXPECT_EQ(read.back().labels, read.front().labels) << of.data.files.front();
    }
    EXPECT_GT(read.front().counted_labels(0, read.front().num_rows), 0);
  }
}

TEST_F(RowShapeTest, TheSameRowsComeInTheSameOrderAlsoFromAListOrACompressedFile) {
  Json rows;
  for (int i = 0; i < 37; ++i) rows.push_back({{"text", "row " + std::to_string(i) + "</s>"}});
  std::vector<TokenDataOptions> all = {options("a.jsonl", lines(rows)),
                                       options("a.json", rows.dump(4)),
                                       options("a.jsonl.gz", test::gzipped(lines(rows)))};
  std::vector<std::vector<Tokens>> read;
  for (TokenDataOptions& of : all) {
    of.data.shuffle = true;
    const TokenData data(of);
    EXPECT_EQ(data.num_sequences(), 37);
    std::vector<Tokens>& steps = read.emplace_back();
    for (std::int64_t step = 1; step <= 20; ++step)
      steps.push_back(TokenData(of).step_rows(step, 4).ids);  // as after a resume
    EXPECT_EQ(steps[18], data.step_rows(19, 4).ids);
    EXPECT_EQ(read.back(), read.front()) << of.data.files.front();
  }
}

TEST_F(RowShapeTest, AlpacaIsAQuestionAndAnAnswerOfTheChatFormat) {
  EXPECT_EQ(marked(row({{"instruction", "Add"}, {"input", "2, 3"}, {"output", "5"}})),
            "<|im_start|>user\nAdd\n2, 3<|im_end|>\n<|im_start|>assistant\n[5<|im_end|>\n]");
  EXPECT_EQ(marked(row({{"instruction", "Add"}, {"input", nullptr}, {"response", "5"}})),
            "<|im_start|>user\nAdd<|im_end|>\n<|im_start|>assistant\n[5<|im_end|>\n]");
  TokenDataOptions system = row({{"system", "Be kind."}, {"instruction", "Add"}, {"output", "5"}});
  EXPECT_EQ(marked(system),
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nAdd"
            "<|im_end|>\n<|im_start|>assistant\n[5<|im_end|>\n]");
  system.data.train_on = {"all"};
  EXPECT_EQ(marked(system),
            "[<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nAdd"
            "<|im_end|>\n<|im_start|>assistant\n5<|im_end|>\n]");
}

TEST_F(RowShapeTest, WithoutAChatFormatAlpacaIsItsPublishedText) {
  write_tokenizer({"</s>"});
  const TokenDataOptions of = row({{"instruction", "Add"}, {"input", "2, 3"}, {"output", "5"}});
  EXPECT_EQ(marked(of),
            "Below is an instruction that describes a task, paired with an input that provides "
            "further context. Write a response that appropriately completes the request.\n\n"
            "### Instruction:\nAdd\n\n### Input:\n2, 3\n\n### Response:\n[5</s>]");
  EXPECT_EQ(TokenData(of).choices().at("data.chat_template"),
            "none found: the layout of the Alpaca project");
  EXPECT_EQ(marked(row({{"instruction", "Add"}, {"output", "5"}})),
            "Below is an instruction that describes a task. Write a response that appropriately "
            "completes the request.\n\n### Instruction:\nAdd\n\n### Response:\n[5</s>]");
  const TokenDataOptions talk = row({{"conversations", {turn("human", "a"), turn("gpt", "b")}}});
  EXPECT_EQ(refused(talk).kind(), ErrorKind::kUsage);
}

TEST_F(RowShapeTest, SharegptIsAConversation) {
  const Json talk = {{"conversations",
                      {turn("system", "s"), turn("human", "a"), turn("gpt", "b"), turn("tool", "c"),
                       message("user", "d"), turn("gpt", "e")}}};
  TokenDataOptions of = row(talk);
  of.data.train_on = {"assistant"};
  const std::string before =
                        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
                        "<|im_start|>assistant\n",
                    after =
                        "\n<|im_start|>tool\nc<|im_end|>\n<|im_start|>user\nd<|im_end|>\n"
                        "<|im_start|>assistant\n";
  EXPECT_EQ(marked(of), before + "[b<|im_end|>]" + after + "[e<|im_end|>]\n");
  of.data.train_on = {"last"};
  EXPECT_EQ(marked(of), before + "b<|im_end|>" + after + "[e<|im_end|>]\n");
  Json system = {{"system", "s"}, {"conversations", {turn("human", "a"), turn("gpt", "b")}}};
  EXPECT_EQ(marked(row(system)), "[" + before + "b<|im_end|>\n]");
  system["conversations"].insert(system["conversations"].begin(), turn("system", "t"));
  EXPECT_NE(refused(row(system)).fact().find("system"), std::string::npos);
}

TEST_F(RowShapeTest, WhatAShapeCannotSayIsAnErrorWithItsLine) {
  const std::vector<std::pair<Json, std::string>> rows = {
      {{{"conversations", "a"}}, "'conversations': a string"},
      {{{"conversations", Json::array()}}, "no messages"},
      {{{"conversations", {{{"value", "a"}}}}}, "'conversations': no 'from' in message 1"},
      {{{"conversations", {{{"from", "gpt"}}}}}, "no 'value' in message 1"},
      {{{"conversations", {turn("narrator", "a")}}}, "'narrator'"},
      {{{"instruction", 3}, {"output", "a"}}, "a number as 'instruction'"},
      {{{"instruction", "a"}, {"output", {"b"}}}, "a string among the messages as 'output'"},
      {{{"instruction", "a"}, {"input", 3}, {"output", "b"}}, "a number as 'input'"},
      {{{"text", "a"}, {"system", "b"}}, "'system'"},
      {{{"instruction", "a"}, {"output", "b"}, {"history", {{"c", "d"}}}}, "'history'"},
      {{{"conversations", {turn("human", "a")}}, {"tools", "[{}]"}}, "'tools'"},
      {{{"messages",
         {{{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {{{"id", 1}}}}}}}},
       "'tool_calls'"},
      {{{"messages", {{{"role", "assistant"}, {"content", nullptr}}}}}, "null as 'content'"},
      {{{"conversation", {turn("human", "a")}}}, "none of"}};
  for (const auto& [json, what] : rows) {
    const Error error = refused(row(json));
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << json;
    EXPECT_NE(error.fact().find(what), std::string::npos) << json << error.fact();
    EXPECT_EQ(error.where().rfind(folder_ / "a.jsonl:1", 0), 0u) << error.where();
  }
  const std::string remedy = refused(row(rows.front().first)).remedy();
  EXPECT_NE(remedy.find("\"from\": \"human\""), std::string::npos) << remedy;
}

TEST_F(RowShapeTest, AFileHasOneShape) {
  const std::string text = R"({"text": "a"})", alpaca = R"({"instruction": "a", "output": "b"})";
  const Error mixed = refused(options("a.jsonl", text + "\n\n" + alpaca + "\n"));
  EXPECT_EQ(mixed.kind(), ErrorKind::kInput);
  EXPECT_EQ(mixed.where(), folder_ / "a.jsonl:3");
  EXPECT_NE(mixed.fact().find("alpaca"), std::string::npos) << mixed.fact();
  EXPECT_NE(mixed.fact().find("text"), std::string::npos) << mixed.fact();
  TokenDataOptions two = options("a.jsonl", text + "\n");
  test::write_file(folder_ / "b.jsonl", alpaca + "\n");
  two.data.files.push_back(folder_ / "b.jsonl");
  EXPECT_EQ(TokenData(two).choices().at("rows"), "text and alpaca");
}

TEST_F(RowShapeTest, FieldsMayHaveOtherNames) {
  TokenDataOptions of = row({{"q", "a"}, {"prompt", 3}, {"a", "b"}});
  of.data.fields = {{"prompt", "q"}, {"completion", "a"}};
  EXPECT_EQ(marked(of), "a[b</s>]");
  of = row({{"dialog", {{{"who", "user"}, {"says", "a"}}, {{"who", "assistant"}, {"says", "b"}}}}});
  of.data.fields = {{"messages", "dialog"}, {"role", "who"}, {"content", "says"}};
  of.data.train_on = {"assistant"};
  EXPECT_EQ(marked(of), "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>]\n");

  const auto remedy = [&](const std::map<std::string, std::string>& fields) {
    TokenDataOptions named = row({{"text", "a"}});
    named.data.fields = fields;
    const Error error = refused(named);
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.where(), "`data.fields`");
    return error.remedy();
  };
  EXPECT_NE(remedy({{"promt", "q"}}).find("prompt"), std::string::npos);
  EXPECT_EQ(remedy({{"q", "prompt"}}), "write it the other way: prompt = \"q\"");
  remedy({{"prompt", ""}});
  remedy({{"prompt", "a"}, {"completion", "a"}});
  TokenDataOptions text = options("a.txt", std::string(2000, 'a'));
  text.data.fields = {{"text", "body"}};
  EXPECT_EQ(refused(text).kind(), ErrorKind::kUsage);
}

TEST_F(RowShapeTest, TrainOnTakesThreeWords) {
  const Json talk = {{"messages", {message("user", "a"), message("assistant", "b")}}};
  TokenDataOptions all = row(talk), assistant = row(talk);
  all.data.train_on = {"all"};
  EXPECT_EQ(marked(all), marked(row(talk)));
  assistant.data.assistant_only_loss = true;
  const std::string counted = marked(assistant);
  assistant.data.train_on = {"assistant"};
  EXPECT_EQ(marked(assistant), counted);
  assistant.data.train_on = {"all"};
  EXPECT_EQ(refused(assistant).kind(), ErrorKind::kUsage);
  all.data.train_on = {"user"};
  EXPECT_EQ(refused(all).where(), "`data.train_on`");
  TokenDataOptions completion = row({{"prompt", "a"}, {"response", "b"}});
  EXPECT_EQ(marked(completion), "a[b</s>]");
  completion.data.train_on = {"all"};
  EXPECT_EQ(marked(completion), "[ab</s>]");
}

TEST_F(RowShapeTest, InspectNamesTheShape) {
  const auto shape = [&](const Json& of) {
    return data::inspect_file(row(of).data.files.front(), {}).shape;
  };
  EXPECT_EQ(shape({{"instruction", "a"}, {"output", "b"}}), "alpaca");
  EXPECT_EQ(shape({{"conversations", {turn("human", "a")}}}), "sharegpt");
  EXPECT_EQ(shape({{"prompt", "a"}, {"response", "b"}}), "prompt and completion");
  EXPECT_EQ(shape({{"messages", {message("user", "a")}}}), "messages");
  EXPECT_EQ(shape({{"pixels", {1, 2}}}), "");
  data::InspectOptions renamed;
  renamed.fields = {{"text", "body"}};
  EXPECT_EQ(data::inspect_file(row({{"body", "a"}}).data.files.front(), renamed).shape, "text");
}

}  // namespace
}  // namespace sluice
