// Parses and type-checks one row of a .jsonl file.
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

struct Message {
  std::string role, content;
  // Whether the loss counts the message, if it has "weight" or "train".
  std::optional<bool> counts = {};
  friend bool operator==(const Message&, const Message&) = default;
};

struct Speech {
  std::optional<std::string> text;
  std::optional<std::vector<Message>> messages;
  // The first error, or "". It is thrown only if the field is used, because the name may have
  // another meaning in other data.
  std::string wrong, remedy;  // "" for the default remedy
};

struct JsonlRow {
  std::optional<std::string> text;
  std::optional<std::vector<std::int64_t>> input_ids, labels, attention_mask, position_ids;
  std::optional<Speech> messages, prompt, completion;
  std::vector<std::string> fields;  // at most kMaxNamedFields, in file order
  // Unknown fields. Beyond kMaxNamedFields, only those that may be rejected.
  std::vector<UnreadField> unread;
  std::vector<FieldValue> values;  // in the order of RowFormat::fields
};
inline constexpr std::size_t kMaxNamedFields = 64;
// A longer row indicates a broken file. Rows are held in memory.
inline constexpr std::uint64_t kMaxRowBytes = std::uint64_t{64} << 20;

struct RowFormat {
  bool tokens = true;  // whether to read text, input_ids, labels, messages, ..
  // Model inputs that every row must have. They override token fields of the same name.
  std::span<const FieldOption> fields = {};
  // If empty, rows cannot name array files.
  std::string folder = {};
};

// Throws Error(kInput) at `where` ("file:line") for malformed JSON, and for duplicate, mistyped,
// missing or unsuitable fields.
JsonlRow parse_jsonl_row(std::string_view json, const std::string& where,
                         const RowFormat& format = {});

}  // namespace sluice::data
