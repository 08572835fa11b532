#pragma once

#include <cstdint>
#include <map>
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
  // Whether the loss counts the message. Unset without "weight" or "train".
  std::optional<bool> counts = {};
  friend bool operator==(const Message&, const Message&) = default;
};

struct Speech {
  std::optional<std::string> text;
  std::optional<std::vector<Message>> messages;
  // First error in this field, or "". Thrown only if training uses the field, because other data
  // may use its name differently.
  std::string wrong, remedy;
};

enum class RowShape : std::uint8_t {
  kNone,  // none of the others, or only numeric fields
  kIds,
  kText,
  kMessages,
  kCompletion,
  kSharegpt,
  kAlpaca
};

struct JsonlRow {
  RowShape shape = RowShape::kNone;
  std::vector<std::string> used;  // the fields of the shape
  std::optional<std::string> text;
  std::optional<std::vector<std::int64_t>> input_ids, labels, attention_mask, position_ids;
  std::optional<Speech> messages, prompt, completion;
  std::optional<Speech> conversations, instruction, input, output, response, system;
  std::vector<std::string> fields;  // all names in file order, up to kMaxNamedFields
  // Fields that training does not read. Beyond kMaxNamedFields, only those that may be rejected.
  std::vector<UnreadField> unread;
  std::vector<FieldValue> values;  // in the order of RowFormat::fields
};
inline constexpr std::size_t kMaxNamedFields = 64;
// Rows are read into memory. A longer row indicates a broken file.
inline constexpr std::uint64_t kMaxRowBytes = std::uint64_t{64} << 20;

struct RowFormat {
  bool tokens = true;  // whether to read text, input_ids, labels, messages, ..
  // Numeric model inputs that every row must have. A name such as "labels" overrides the token
  // field.
  std::span<const FieldOption> fields = {};
  // DataOptions::fields, which renames fields. Null: no field is renamed.
  const std::map<std::string, std::string>* names = nullptr;
  // Directory of array files. If empty, rows cannot name array files.
  std::string folder = {};
};

// Throws Error(kInput) at `where` ("file:line") for malformed JSON, and for duplicate, mistyped,
// missing or unsuitable fields.
JsonlRow parse_jsonl_row(std::string_view json, const std::string& where,
                         const RowFormat& format = {});

}  // namespace sluice::data
