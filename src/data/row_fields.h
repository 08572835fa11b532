// Fields of a .jsonl row or message that make no tokens. A field that would change the tokens or
// the loss is refused. All others are metadata.
//
// Owns: the lists of names. Does not own: reading rows (jsonl_row.h), their tokens (row_tokens.h).
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data {

// The values in an unread field, at any depth. kNone: only null, "", [] or {}. kOnes: all 1 or
// true. kZeros: all 0 or false.
enum class FieldValues : std::uint8_t { kNone, kOnes, kZeros, kOther };

// Adds a scalar to the values of a field.
FieldValues joined(FieldValues of_field, FieldValues of_scalar);

struct UnreadField {
  std::string name;
  FieldValues values = FieldValues::kNone;
};

// Error text without the place. Both are "" for metadata.
struct FieldRefusal {
  std::string what, remedy;
};

// Whether a field of this name is refused in some row.
bool may_be_refused(const std::string& field);
// used: the fields that make the row's tokens.
FieldRefusal refusal_of_row_field(const UnreadField& field, const std::vector<std::string>& used);
// Refuses every field of a message that has other values than its default.
FieldRefusal refusal_of_message_field(const UnreadField& field);

// Refuses a row of ShareGPT, Alpaca or preferences. fields: all names of the row.
FieldRefusal refusal_of_shape(const std::vector<std::string>& fields);

}  // namespace sluice::data
