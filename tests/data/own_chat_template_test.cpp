#include "data/own_chat_template.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sluice/data.h"
#include "support/small_tokenizer.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

// The template as it stands in a .json file, where a backslash is doubled.
constexpr const char* kChatml =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "
    "}}{% endif %}";
constexpr const char* kOther = "{% for message in messages %}{{ message['content'] }}{% endfor %}";

class OwnChatTemplateTest : public testing::Test {
 protected:
  OwnChatTemplateTest() {
    test::SmallTokenizer tokenizer;
    tokenizer.special = {"<|im_start|>", "<|im_end|>", "</s>"};
    test::write_file(folder_ / "model/tokenizer.json", tokenizer.json());
    test::write_file(folder_ / "chat.jsonl",
                     "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
                     "{\"role\": \"assistant\", \"content\": \"b\"}]}\n");
    test::write_file(folder_ / "text.jsonl", "{\"text\": \"some text\"}\n");
  }
  void write(const std::string& name, const std::string& text) const {
    test::write_file(folder_ / ("model/" + name), text);
  }
  void write_config(const std::string& chat_template) const {
    write("tokenizer_config.json", "{\"chat_template\": " + chat_template + "}");
  }
  std::vector<std::string> warnings(const std::string& file,
                                    ChatTemplate taken = ChatTemplate::kAuto) const {
    TokenDataOptions options;
    options.data.files = {folder_ / file};
    options.data.chat_template = taken;
    options.seq_len = 128;
    options.vocab_size = 259;
    options.model_directory = folder_ / "model";
    return TokenData(options).warnings();
  }
  void expect_warned_of(const std::string& name) const {
    const std::vector<std::string> found = warnings("chat.jsonl");
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found.front().find(folder_ / ("model/" + name)), 0u) << found.front();
    EXPECT_NE(found.front().find("data.chat_template` = \"chatml\""), std::string::npos);
    EXPECT_EQ(found.front().find('\n'), std::string::npos);
  }

  const test::TempDirectory folder_;
};

TEST_F(OwnChatTemplateTest, ATemplateThatWritesTheSameIsNotTalkedOf) {
  EXPECT_TRUE(warnings("chat.jsonl").empty());
  write_config(std::string("\"") + kChatml + "\"");
  EXPECT_TRUE(warnings("chat.jsonl").empty());
  write_config(std::string("[{\"name\": \"tool\", \"template\": \"x\"}, {\"name\": \"default\", "
                           "\"template\": \"") +
               kChatml + "\"}]");
  EXPECT_TRUE(warnings("chat.jsonl").empty());
}

TEST_F(OwnChatTemplateTest, ChatmlByAnotherVariableOrWithoutAPromptIsTheSame) {
  write("chat_template.jinja",
        "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + "
        "'<|im_end|>' + '\n' }}{% endfor %}");
  EXPECT_TRUE(warnings("chat.jsonl").empty());
  write("chat_template.jinja",
        "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + "
        "'<|im_end|>' }}{% endfor %}");
  expect_warned_of("chat_template.jinja");
}

TEST_F(OwnChatTemplateTest, ATemplateThatWritesTheSameInOtherWordsIsNoWarning) {
  const std::string begin =
      "{%- for turn in messages %}\n    {{- '<|im_start|>' ~ turn.role ~ '\n' }}\n";
  const std::string end = "    {{- '<|im_end|>\n' }}\n{%- endfor %}";
  write("chat_template.jinja", begin + "    {{- turn.content }}\n" + end);
  EXPECT_TRUE(warnings("chat.jsonl").empty());
  write("chat_template.jinja", begin + "    {{- turn.content | trim }}\n" + end);
  expect_warned_of("chat_template.jinja");
  write("chat_template.jinja", begin + "    {{- turn.content.split('</think>')[-1] }}\n" + end);
  expect_warned_of("chat_template.jinja");
  write("chat_template.jinja", begin + "    {{- turn.content | wordcount }}\n" + end);
  expect_warned_of("chat_template.jinja");
}

TEST_F(OwnChatTemplateTest, AnotherTemplateIsAWarningOfTheFileAndTheKey) {
  write_config(std::string("\"") + kOther + "\"");
  expect_warned_of("tokenizer_config.json");
  write("chat_template.jinja", kOther);
  expect_warned_of("chat_template.jinja");
}

TEST_F(OwnChatTemplateTest, ComparesWithTheFormatInUse) {
  write_config(std::string("\"") + kChatml + "\"");
  EXPECT_EQ(warnings("chat.jsonl", ChatTemplate::kMistral).size(), 1u);
}

TEST_F(OwnChatTemplateTest, NamedTemplatesAloneAreAWarningToo) {
  write("additional_chat_templates/tool.jinja", kOther);
  expect_warned_of("additional_chat_templates");
}

TEST_F(OwnChatTemplateTest, DataWithoutConversationsHasNoWarning) {
  write_config(std::string("\"") + kOther + "\"");
  EXPECT_TRUE(warnings("text.jsonl").empty());
}

TEST_F(OwnChatTemplateTest, TemplatesAreComparedWithoutWhatChangesNothing) {
  using data::plain_template;
  EXPECT_EQ(plain_template(" {{ 'a' + x }}{%  for m in  y %}\n"), "{{'a'+x}}{%for m in y%}");
  EXPECT_EQ(plain_template("{{ \"a\\n\" }} b "), "{{'a\n'}} b");
  EXPECT_NE(plain_template("{{ 'a ' }}"), plain_template("{{ 'a' }}"));
  EXPECT_NE(plain_template("{{ x }} {{ y }}"), plain_template("{{ x }}{{ y }}"));
  EXPECT_EQ(plain_template(" \n"), "");
  using data::with_usual_variable;
  EXPECT_EQ(with_usual_variable("{%for m in messages%}{{m['role']+'im'}}{%endfor%}"),
            "{%for message in messages%}{{message['role']+'im'}}{%endfor%}");
  EXPECT_EQ(with_usual_variable("{{m['role']}}"), "{{m['role']}}");
}

}  // namespace
}  // namespace sluice
