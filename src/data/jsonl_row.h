// Parses one row of a .jsonl file and checks its fields. Of unknown fields it keeps only the names.
//
// Owns: the types of the fields. Does not own: which of them a row is made of, what becomes tokens
// (row_tokens.h), the other fields that a row may have (row_fields.h), the numbers of fields that a
// model asks for (field_reader.h).
// No torch. Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/row_fields.h"
#include "sluice/data.h"

namespace sluice::data {

// A turn of a conversation.
struct Message {
  std::string role, content;
  // Whether the loss counts the message, by its "weight" or "train". Empty if it has neither.
  std::optional<bool> counts = {};
  friend bool operator==(const Message&, const Message&) = default;
};

// The content of a message or field: a text, or a list of messages.
struct Speech {
  std::optional<std::string> text;
  std::optional<std::vector<Message>> messages;
  // The first thing that is wrong with it, "" for nothing. Rows may have fields of these names for
  // other purposes: it is an error only where the field is used.
  std::string wrong, remedy;  // remedy: "" for the default remedy
};

struct JsonlRow {
  std::optional<std::string> text;
  std::optional<std::vector<std::int64_t>> input_ids, labels, attention_mask, position_ids;
  std::optional<Speech> messages, prompt, completion;
  std::vector<std::string> fields;  // names of all, in their order; the first kMaxNamedFields
  // Unknown fields in file order: the first kMaxNamedFields, and later ones that may be refused.
  std::vector<UnreadField> unread;
  std::vector<FieldValue> values;  // values of RowFormat::fields, in their order
};
inline constexpr std::size_t kMaxNamedFields = 64;
inline constexpr std::uint64_t kMaxRowBytes = std::uint64_t{64} << 20;

// The fields of a row that have a meaning.
struct RowFormat {
  bool tokens = true;  // text, input_ids, labels, messages, ..
  // Those that are asked for; they go before `tokens`. A row has to have them all.
  std::span<const FieldOption> fields = {};
  // Folder in which a field's array file is looked up. Empty: fields cannot name files.
  std::string folder = {};
};

// Throws Error(kInput) at `where` ("file:line") for a line that is no JSON object, and for a known
// field that has the wrong type or occurs twice. A requested field must exist, and have the right
// sizes and numbers of its dtype. Also throws the errors of read_array() (array_file.h).
JsonlRow parse_jsonl_row(std::string_view json, const std::string& where,
                         const RowFormat& format = {});

}  // namespace sluice::data
