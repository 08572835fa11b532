// The text of a conversation's messages, in the published formats of four families.
//
// Formats, as the chat templates of these models render them:
//   chatml   <|im_start|>ROLE\nCONTENT<|im_end|>\n                     (Qwen, SmolLM, ..)
//   llama3   BOS <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>        (Llama 3.0)
//   mistral  BOS, then [INST] USER[/INST] ASSISTANT EOS                (Mistral 7B v0.3), or, where
//            the tokenizer has no token [INST], " [INST] USER [/INST] ASSISTANT" EOS (v0.1, v0.2)
//   gemma    BOS, then <start_of_turn>ROLE\nCONTENT<end_of_turn>\n, the assistant being "model"
// llama3 and gemma strip white space around a content, mistral v0.3 around the assistant's. mistral
// and gemma have no system message of their own: one in front goes before the first of the user,
// two line ends between.
//
// Owns: the texts, the roles and their order, the special tokens that a tokenizer needs. Does not
// own: tokens (row_tokens.h). Thread-safety: const members may be called from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "data/jsonl_row.h"
#include "data/text_tokens.h"
#include "sluice/data.h"

namespace sluice::data {

// The text of a message.
struct Turn {
  std::string text;
  // The assistant's part of it, with the token that ends it: [begin, end), empty for others.
  std::size_t begin = 0, end = 0;
  bool counts = true;  // false: a message in it does not count (Message::counts)
};

// Throws Error(kInput) for an unknown role, with the nearest known one.
void require_known_roles(const std::vector<Message>& messages);

class ChatFormat {
 public:
  // kAuto: by the tokenizer's special tokens, else by the family (model_type of config.json).
  // Throws Error(kUsage) if neither decides, and Error(kInput) if the tokenizer lacks a special
  // token of the format. Bytes need no special tokens.
  ChatFormat(ChatTemplate chat_template, const TextTokens& tokens, const std::string& family);

  ChatTemplate format() const { return template_; }
  // The tokenizer has the format's marks as tokens, by which two of Mistral's are told apart.
  bool marks_are_tokens() const { return has_tokens_; }

  // generation_prompt: ends with the text before an answer. Throws Error(kInput) without messages,
  // and for an unknown or misplaced role.
  std::vector<Turn> turns(const std::vector<Message>& messages, bool generation_prompt) const;

 private:
  std::vector<Turn> alternating(const std::vector<Message>& messages) const;
  Turn instruction(const Message& message, const std::string& system) const;
  Turn gemma_turn(const Message& message, const std::string& system) const;

  ChatTemplate template_;
  std::string begin_, end_;  // the tokens of a text
  bool has_tokens_ = false;  // mistral: [INST] is a token
};

}  // namespace sluice::data
