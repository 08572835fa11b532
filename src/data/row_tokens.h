// Converts .jsonl rows to token ids and numeric fields. Tokens come from input_ids, else text,
// messages, or prompt and completion (row_shape.h). Const members are thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "data/chat_template.h"
#include "data/jsonl_row.h"
#include "data/sequence_source.h"

namespace sluice::data {

class RowTokens {
 public:
  explicit RowTokens(const SourceOptions& options) : options_(options) {}

  // Throws Error(kInput), without file and line, for rows without tokens, contradicting fields, ids
  // outside the vocabulary, and rows that are too long. Throws Error(kUsage) if no chat template is
  // known.
  Sequence sequence(JsonlRow row) const;
  // Makes the checks of sequence() that need no tokenizer. Throws Error(kInput), without file and
  // line.
  void require_sound(const JsonlRow& row) const;
  // Like require_sound(), and checks the order of roles if data.chat_template names a format.
  void require_sound_turns(const JsonlRow& row) const;
  void warn_of_unread() const;

 private:
  Sequence of_ids(JsonlRow& row) const;
  Sequence of_conversation(const JsonlRow& row) const;
  Sequence of_completion(const std::string& prompt, const std::string& completion) const;
  // Excludes messages before the assistant's last one, where only that counts.
  std::vector<Message> counted_messages(std::vector<Message> messages) const;
  Sequence of_spoken_completion(const Speech& prompt, const Speech& completion) const;
  void check_ids(const std::vector<std::int64_t>& ids,
                 const std::vector<std::int64_t>& labels) const;
  void check_tokens(const std::vector<std::int32_t>& ids) const;
  const ChatFormat& chat() const;
  // False if `data.chat_template` = "auto" finds no format.
  bool has_chat() const;
  void note_unread(const JsonlRow& row, const std::vector<std::string>& used) const;

  const SourceOptions options_;
  mutable std::mutex noting_;
  mutable std::set<std::string> unread_;
  mutable std::mutex choosing_;
  mutable std::unique_ptr<const ChatFormat> chat_;  // created when first needed
};

}  // namespace sluice::data
