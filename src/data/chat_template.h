// Writes conversations as text, as the chat templates of these models do:
//
//   chatml   <|im_start|>ROLE\nCONTENT<|im_end|>\n                     (Qwen, SmolLM, ..)
//   llama3   BOS <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>        (Llama 3.0)
//   mistral  BOS, then [INST] USER[/INST] ASSISTANT EOS                (Mistral 7B v0.3), or, if
//            the tokenizer has no token [INST], " [INST] USER [/INST] ASSISTANT" EOS (v0.1, v0.2)
//   gemma    BOS, then <start_of_turn>ROLE\nCONTENT<end_of_turn>\n; the assistant is "model"
// llama3 and gemma strip white space around contents, mistral v0.3 only around the assistant's.
// mistral and gemma put a system message before the first user message, followed by two line ends.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "data/jsonl_row.h"
#include "data/text_tokens.h"
#include "sluice/data.h"

namespace sluice::data {

struct Turn {
  std::string text;
  // Byte range of the assistant's content and end token in `text`. Empty for other roles.
  std::size_t begin = 0, end = 0;
  bool counts = true;  // false: the loss skips this turn
};

// Throws Error(kInput) for an unknown role.
void require_known_roles(const std::vector<Message>& messages);

class ChatFormat {
 public:
  // With kAuto, special tokens determine the format, otherwise `family` (model_type). Throws
  // Error(kUsage) if neither does, and Error(kInput) if the tokenizer lacks a token of the format.
  ChatFormat(ChatTemplate chat_template, const TextTokens& tokens, const std::string& family);

  ChatTemplate format() const { return template_; }
  // Whether [INST] is a single token: true for Mistral v0.3, false for v0.1 and v0.2.
  bool marks_are_tokens() const { return has_tokens_; }

  // With `generation_prompt`, appends the text that precedes an answer. Throws Error(kInput) for an
  // unknown or misplaced role, or no messages.
  std::vector<Turn> turns(const std::vector<Message>& messages, bool generation_prompt) const;

 private:
  std::vector<Turn> alternating(const std::vector<Message>& messages) const;
  Turn instruction(const Message& message, const std::string& system) const;
  Turn gemma_turn(const Message& message, const std::string& system) const;

  ChatTemplate template_;
  std::string begin_, end_;
  bool has_tokens_ = false;
};

}  // namespace sluice::data
