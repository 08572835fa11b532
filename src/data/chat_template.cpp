#include "data/chat_template.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "data/data_words.h"
#include "data/text_cut.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

struct Known {
  ChatTemplate format;
  std::vector<std::string_view> tokens;
  std::vector<std::string_view> families;
  std::string_view begin;
};

const std::vector<Known>& known_formats() {
  static const std::vector<Known> formats = {
      {ChatTemplate::kChatml, {"<|im_start|>", "<|im_end|>"}, {"qwen2", "qwen3", "qwen3_moe"}, ""},
      {ChatTemplate::kGemma,
       {"<start_of_turn>", "<end_of_turn>"},
       {"gemma", "gemma2", "gemma3", "gemma3_text"},
       "<bos>"},
      {ChatTemplate::kLlama3,
       {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
       {},
       "<|begin_of_text|>"},
      {ChatTemplate::kMistral, {"[INST]", "[/INST]"}, {"mistral", "mixtral"}, "<s>"}};
  return formats;
}

bool has_token(const TextTokens& tokens, std::string_view token) {
  return !tokens.is_bytes() && tokens.tokenizer().id_of(token).has_value();
}

bool has_tokens(const Known& known, const TextTokens& tokens) {
  return std::all_of(known.tokens.begin(), known.tokens.end(),
                     [&](std::string_view token) { return has_token(tokens, token); });
}

const Known& known_format(ChatTemplate chat_template, const TextTokens& tokens,
                          const std::string& family) {
  const std::vector<Known>& formats = known_formats();
  const auto find = [&](const auto& fits) {
    return std::find_if(formats.begin(), formats.end(), fits);
  };
  auto found = formats.end();
  if (chat_template != ChatTemplate::kAuto) {
    found = find([&](const Known& known) { return known.format == chat_template; });
  } else {
    found = find([&](const Known& known) { return has_tokens(known, tokens); });
    if (found == formats.end()) {
      found = find([&](const Known& known) {
        return std::find(known.families.begin(), known.families.end(), family) !=
               known.families.end();
      });
    }
  }
  if (found != formats.end()) return *found;
  throw Error(ErrorKind::kUsage,
              {.what = "`data.chat_template` = \"auto\" finds no format for conversations by the "
                       "tokenizer's special tokens or the model's family",
               .remedy = "set `data.chat_template` to \"chatml\", \"llama3\", \"mistral\" or "
                         "\"gemma\""});
}

std::string stripped(std::string_view text) {
  while (const std::size_t space = leading_space(text)) text.remove_prefix(space);
  while (const std::size_t space = trailing_space(text)) text.remove_suffix(space);
  return std::string(text);
}

[[noreturn]] void refuse(std::size_t message, const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kInput,
              {.what = formatted("message {}{}", message + 1, what), .remedy = remedy});
}

Turn turn_of(const std::string& head, const std::string& content, const std::string& end_of_turn,
             const std::string& tail, bool is_assistant) {
  Turn turn{head + content + end_of_turn + tail};
  if (is_assistant) {
    turn.begin = head.size();
    turn.end = turn.text.size() - tail.size();
  }
  return turn;
}

const std::vector<std::string>& known_roles() {
  static const std::vector<std::string> roles = {"system", "user", "assistant", "tool",
                                                 "developer"};
  return roles;
}

// Returns the standard role for `role` ("user" for "human"), or "".
std::string role_named(const std::string& role) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"model", "assistant"}, {"gpt", "assistant"}, {"chatgpt", "assistant"},
      {"bot", "assistant"},   {"ai", "assistant"},  {"agent", "assistant"},
      {"human", "user"},      {"prompter", "user"}, {"customer", "user"},
      {"function", "tool"},   {"ipython", "tool"},  {"observation", "tool"},
      {"environment", "tool"}};
  const std::string lower = to_lower(trim(role));
  for (const auto& [other, known] : kOthers)
    if (other == lower) return std::string(known);
  return nearest_name(lower, known_roles());
}

}  // namespace

void require_known_roles(const std::vector<Message>& messages) {
  const std::vector<std::string>& known = known_roles();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (std::find(known.begin(), known.end(), role) != known.end()) continue;
    const std::string meant = role_named(role);
    refuse(i, " has the role '" + role + "', which is not known",
           meant.empty() ? "roles are " + join(known, ", ") : "did you mean '" + meant + "'?");
  }
}

ChatFormat::ChatFormat(ChatTemplate chat_template, const TextTokens& tokens,
                       const std::string& family) {
  const Known& known = known_format(chat_template, tokens, family);
  template_ = known.format;
  has_tokens_ = has_tokens(known, tokens);
  begin_ = tokens.begin_token();
  end_ = tokens.end_token();
  if (begin_.empty() && has_token(tokens, known.begin)) begin_ = known.begin;
  if (end_.empty()) end_ = "</s>";
  if (tokens.is_bytes()) return;
  // Mistral v0.1 and v0.2 were trained with "[INST]" split into ordinary tokens, so the tokenizer
  // may lack it.
  std::vector<std::string> needed(known.tokens.begin(), known.tokens.end());
  if (template_ == ChatTemplate::kMistral) needed = {end_};
  for (const std::string& token : needed) {
    if (has_token(tokens, token)) continue;
    throw Error(
        ErrorKind::kInput,
        {.what = formatted("the chat format \"{}\" needs the special token '{}', which the "
                           "tokenizer does not have",
                           detail::word_of(detail::words_of(template_), template_), token),
         .where = tokens.file(),
         .remedy = "set `data.chat_template` to a format of this tokenizer, add the token to "
                   "tokenizer and model, or write rows of input_ids and labels "
                   "(docs/data.md#rows-made-elsewhere)"});
  }
}

std::vector<Turn> ChatFormat::turns(const std::vector<Message>& messages,
                                    bool generation_prompt) const {
  if (messages.empty()) {
    throw Error(ErrorKind::kInput,
                {.what = "the row has no messages", .remedy = "remove the line"});
  }
  require_known_roles(messages);
  std::vector<Turn> turns;
  if (template_ == ChatTemplate::kMistral || template_ == ChatTemplate::kGemma) {
    turns = alternating(messages);
  } else {
    for (const Message& message : messages) {
      const bool is_assistant = message.role == "assistant";
      if (template_ == ChatTemplate::kChatml) {
        turns.push_back(turn_of("<|im_start|>" + message.role + "\n", message.content, "<|im_end|>",
                                "\n", is_assistant));
      } else {
        turns.push_back(turn_of("<|start_header_id|>" + message.role + "<|end_header_id|>\n\n",
                                stripped(message.content), "<|eot_id|>", "", is_assistant));
      }
      turns.back().counts = message.counts.value_or(true);
    }
  }
  if (generation_prompt && template_ == ChatTemplate::kChatml)
    turns.push_back(turn_of("<|im_start|>assistant\n", "", "", "", false));
  if (generation_prompt && template_ == ChatTemplate::kLlama3)
    turns.push_back(
        turn_of("<|start_header_id|>assistant<|end_header_id|>\n\n", "", "", "", false));
  if (generation_prompt && template_ == ChatTemplate::kGemma)
    turns.push_back(turn_of("<start_of_turn>model\n", "", "", "", false));
  if (template_ != ChatTemplate::kChatml) {
    Turn& first = turns.front();
    first.text.insert(0, begin_);
    if (first.end > 0) {
      first.begin += begin_.size();
      first.end += begin_.size();
    }
  }
  return turns;
}

std::vector<Turn> ChatFormat::alternating(const std::vector<Message>& messages) const {
  const bool has_system = messages.front().role == "system";
  if (has_system && messages.size() == 1)
    refuse(0, " is a system message without a message after it", "add the user's message");
  std::vector<Turn> turns;
  for (std::size_t i = has_system ? 1 : 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const std::string expected = turns.size() % 2 == 0 ? "user" : "assistant";
    if (message.role != expected) {
      refuse(i, " has role '" + message.role + "' where '" + expected + "' is expected",
             "let user and assistant take turns after at most one system message");
    }
    const bool takes_system = has_system && turns.empty();
    const std::string system = takes_system ? messages.front().content + "\n\n" : "";
    turns.push_back(template_ == ChatTemplate::kGemma ? gemma_turn(message, system)
                                                      : instruction(message, system));
    // The first user turn includes the system message, so the loss counts the turn only if it
    // counts both.
    turns.back().counts =
        message.counts.value_or(true) && (!takes_system || messages.front().counts.value_or(true));
  }
  return turns;
}

Turn ChatFormat::instruction(const Message& message, const std::string& system) const {
  if (message.role == "user") {
    return {has_tokens_ ? "[INST] " + system + message.content + "[/INST]"
                        : " [INST] " + system + message.content + " [/INST]"};
  }
  return turn_of(" ", has_tokens_ ? stripped(message.content) : message.content, end_, "", true);
}

Turn ChatFormat::gemma_turn(const Message& message, const std::string& system) const {
  const bool is_assistant = message.role == "assistant";
  return turn_of("<start_of_turn>" + (is_assistant ? "model" : message.role) + "\n" + system,
                 stripped(message.content), "<end_of_turn>", "\n", is_assistant);
}

}  // namespace sluice::data
