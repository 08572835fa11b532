// The expected texts are what the chat templates of the named models render.
#include "data/chat_template.h"

#include <gtest/gtest.h>

#include "data/text_cut.h"
#include "sluice/error.h"
#include "support/expect_error.h"

namespace sluice::data {
namespace {

using test::error_of;

class ChatTemplateTest : public testing::Test {
 protected:
  static TokenDataOptions byte_options() {
    TokenDataOptions options;
    options.data.tokenizer = "bytes";
    options.vocab_size = 256;
    return options;
  }
  std::string text(ChatTemplate chat_template, const std::vector<Message>& messages,
                   bool generation_prompt = false) const {
    std::string text;
    for (const Turn& turn :
         ChatFormat(chat_template, tokens_, "").turns(messages, generation_prompt))
      text += turn.text;
    return text;
  }
  std::vector<std::string> spoken(ChatTemplate chat_template,
                                  const std::vector<Message>& messages) const {
    std::vector<std::string> parts;
    for (const Turn& turn : ChatFormat(chat_template, tokens_, "").turns(messages, false)) {
      if (turn.begin < turn.end)
        parts.push_back(turn.text.substr(turn.begin, turn.end - turn.begin));
    }
    return parts;
  }
  Error refusal(ChatTemplate chat_template, const std::vector<Message>& messages) const {
    return error_of([&] { text(chat_template, messages); });
  }

  const TextTokens tokens_{byte_options()};
  const std::vector<Message> talk_ = {
      {"user", " Hi "}, {"assistant", "\nHello! "}, {"user", "Bye"}, {"assistant", "See you"}};
};

TEST_F(ChatTemplateTest, RendersChatml) {
  EXPECT_EQ(text(ChatTemplate::kChatml, talk_),
            "<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n\nHello! <|im_end|>\n"
            "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\nSee you<|im_end|>\n");
  EXPECT_EQ(text(ChatTemplate::kChatml, {{"system", "S"}, {"tool", "T"}}, true),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>tool\nT<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(spoken(ChatTemplate::kChatml, talk_),
            (std::vector<std::string>{"\nHello! <|im_end|>", "See you<|im_end|>"}));
}

TEST_F(ChatTemplateTest, RendersLlama3) {
  EXPECT_EQ(text(ChatTemplate::kLlama3, talk_),
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nSee you<|eot_id|>");
  EXPECT_EQ(text(ChatTemplate::kLlama3, {{"user", "a"}}, true),
            "<|start_header_id|>user<|end_header_id|>\n\na<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(spoken(ChatTemplate::kLlama3, talk_),
            (std::vector<std::string>{"Hello!<|eot_id|>", "See you<|eot_id|>"}));
}

TEST_F(ChatTemplateTest, RendersMistral) {
  EXPECT_EQ(text(ChatTemplate::kMistral, talk_),
            " [INST]  Hi  [/INST] \nHello! </s> [INST] Bye [/INST] See you</s>");
  EXPECT_EQ(text(ChatTemplate::kMistral, {{"system", "S"}, {"user", "a"}}),
            " [INST] S\n\na [/INST]");
  EXPECT_EQ(spoken(ChatTemplate::kMistral, talk_),
            (std::vector<std::string>{"\nHello! </s>", "See you</s>"}));
}

TEST_F(ChatTemplateTest, RendersGemma) {
  EXPECT_EQ(text(ChatTemplate::kGemma, talk_),
            "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n"
            "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\nSee you<end_of_turn>\n");
  EXPECT_EQ(text(ChatTemplate::kGemma, {{"system", "S "}, {"user", "a"}}, true),
            "<start_of_turn>user\nS \n\na<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(spoken(ChatTemplate::kGemma, talk_),
            (std::vector<std::string>{"Hello!<end_of_turn>", "See you<end_of_turn>"}));
}

TEST_F(ChatTemplateTest, TurnsAlternateWhereTheFormatHasNoOtherWay) {
  for (const ChatTemplate chat_template : {ChatTemplate::kMistral, ChatTemplate::kGemma}) {
    EXPECT_EQ(refusal(chat_template, {{"assistant", "a"}}).fact(),
              "message 1 has role 'assistant' where 'user' is expected");
    EXPECT_EQ(refusal(chat_template, {{"user", "a"}, {"user", "b"}}).fact(),
              "message 2 has role 'user' where 'assistant' is expected");
    EXPECT_EQ(refusal(chat_template, {{"user", "a"}, {"system", "b"}}).kind(), ErrorKind::kInput);
    EXPECT_EQ(refusal(chat_template, {{"system", "a"}}).kind(), ErrorKind::kInput);
    EXPECT_EQ(refusal(chat_template, {{"user", "a"}, {"tool", "b"}}).kind(), ErrorKind::kInput);
  }
  EXPECT_EQ(refusal(ChatTemplate::kChatml, {}).kind(), ErrorKind::kInput);
}

TEST_F(ChatTemplateTest, AutomaticIsByFamilyOrRefusedWithTheKey) {
  const Error error =
      error_of([&] { ChatFormat format(ChatTemplate::kAuto, tokens_, "some_family"); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_NE(error.remedy().find("data.chat_template"), std::string::npos);
  const ChatFormat mixtral(ChatTemplate::kAuto, tokens_, "mixtral");
  EXPECT_EQ(mixtral.turns({{"user", "a"}}, false).front().text, " [INST] a [/INST]");
}

TEST(TextCutTest, WhiteSpaceIsThatOfUnicode) {
  for (const char* space : {" ", "\t", "\n", "\x0b", "\x1c", "\x1f", "\xc2\x85", "\xc2\xa0",
                            "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x8a", "\xe2\x80\xa8",
                            "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"}) {
    EXPECT_EQ(leading_space(space), std::string(space).size());
    EXPECT_EQ(trailing_space("a" + std::string(space)), std::string(space).size());
  }
  for (const char* other : {"", "a", "\x7f", "\x1b", "\xe2\x80\x8b", "\xef\xbb\xbf", "\xc2",
                            "\xe3\x80", "\x80", "\xc2\x86"}) {
    EXPECT_EQ(leading_space(other), 0u);
    EXPECT_EQ(trailing_space(other), 0u);
  }
  EXPECT_EQ(leading_space(std::string_view("\0", 1)), 0u);
}

TEST(TextCutTest, CutsWhereNoTokenGoesOn) {
  EXPECT_EQ(find_cut("ab cd", 1), 2u);
  EXPECT_EQ(find_cut("ab cd ef", 3), 5u);
  EXPECT_EQ(find_cut("12 34", 1), std::string::npos);
  EXPECT_EQ(find_cut("a.\nb", 1), 3u);
  EXPECT_EQ(find_cut("a.\n\nb", 1), std::string::npos);
  EXPECT_EQ(find_cut("a. \nb", 1), std::string::npos);
  EXPECT_EQ(find_cut("a\xe3\x80\x80\nb", 1), std::string::npos) << "behind white space";
  EXPECT_EQ(find_cut("a\n\xe3\x80\x80", 1), std::string::npos) << "before white space";
  EXPECT_EQ(find_cut("\xe3\x80\x82\n\xe4\xb8\x80", 1), 4u) << "between ideographs";
  EXPECT_EQ(find_cut("\na", 1), std::string::npos);
  EXPECT_EQ(character_cut("abc\xe4\xb8\x80", 5), 3u);
  EXPECT_EQ(character_cut("abc\xe4\xb8\x80", 3), 3u);
  EXPECT_EQ(character_cut("\x80\x80\x80\x80\x80\x80", 5), 5u);
}

}  // namespace
}  // namespace sluice::data
