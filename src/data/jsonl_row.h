// One row of a .jsonl file: its fields, checked; anything else in it is skipped without being kept.
//
// Owns: the types of the fields. Does not own: which of them a row is made of, what becomes tokens
// (row_tokens.h).
// No torch. Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data {

// A turn of a conversation.
struct Message {
  std::string role, content;
  friend bool operator==(const Message&, const Message&) = default;
};

// The content of a message or field: a text, or a list of messages.
struct Speech {
  std::optional<std::string> text;
  std::optional<std::vector<Message>> messages;
  // The first thing that is wrong with it, "" for nothing. Rows may have fields of these names for
  // other purposes: it is an error only where the field is used.
  std::string wrong;
};

struct JsonlRow {
  std::optional<std::string> text;
  std::optional<std::vector<std::int64_t>> input_ids, labels, attention_mask, position_ids;
  std::optional<Speech> messages, prompt, completion;
  std::vector<std::string> fields;  // names of all, in their order; the first kMaxNamedFields
};
inline constexpr std::size_t kMaxNamedFields = 64;

// Throws Error(kInput) at `where` ("file:line"): not a JSON object, a field of text or numbers of
// the wrong type, a known field given twice.
JsonlRow parse_jsonl_row(std::string_view json, const std::string& where);

}  // namespace sluice::data
