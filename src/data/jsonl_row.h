// Parses one row of a .jsonl file and checks the types of its fields. row_tokens.h turns it into
// tokens.
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

// A message of a conversation.
struct Message {
  std::string role, content;
  // From "weight" or "train": whether the loss counts the message.
  std::optional<bool> counts = {};
  friend bool operator==(const Message&, const Message&) = default;
};

// A text, or a list of messages.
struct Speech {
  std::optional<std::string> text;
  std::optional<std::vector<Message>> messages;
  // The first error in this field, or "". It is thrown only if the field is used, because rows may
  // use the same names for other data.
  std::string wrong, remedy;  // remedy "" means the default
};

struct JsonlRow {
  std::optional<std::string> text;
  std::optional<std::vector<std::int64_t>> input_ids, labels, attention_mask, position_ids;
  std::optional<Speech> messages, prompt, completion;
  std::vector<std::string> fields;  // the first kMaxNamedFields names, in file order
  // Unknown fields in file order. Beyond kMaxNamedFields, only those that may be rejected.
  std::vector<UnreadField> unread;
  std::vector<FieldValue> values;  // in the order of RowFormat::fields
};
inline constexpr std::size_t kMaxNamedFields = 64;
inline constexpr std::uint64_t kMaxRowBytes = std::uint64_t{64} << 20;

struct RowFormat {
  bool tokens = true;  // whether to read text, input_ids, labels, messages, ..
  // Inputs of the model that every row must have. They take precedence over token fields with the
  // same names.
  std::span<const FieldOption> fields = {};
  // Directory of array files. If empty, rows cannot name files.
  std::string folder = {};
};

// Throws Error(kInput) at `where` ("file:line") for malformed JSON, for a field that is duplicate
// or of the wrong type, and for a missing or misfitting requested field. Also throws the errors of
// read_array().
JsonlRow parse_jsonl_row(std::string_view json, const std::string& where,
                         const RowFormat& format = {});

}  // namespace sluice::data
