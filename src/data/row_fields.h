// The fields of a .jsonl row, and of a message in it, that no token is made of: which of them are
// refused, since they would change the tokens or the loss, and which are metadata.
//
// Owns: the lists of names. Does not own: reading rows (jsonl_row.h), their tokens (row_tokens.h).
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data {

// What the values in an unread field are, looking through lists and objects: none but null, "", []
// and {}; all 1 or true; all 0 or false; anything else.
enum class FieldValues : std::uint8_t { kNone, kOnes, kZeros, kOther };

// The values of one more scalar in the same field.
FieldValues joined(FieldValues of_field, FieldValues of_scalar);

struct UnreadField {
  std::string name;
  FieldValues values = FieldValues::kNone;
};

// Why a field of a row cannot be left unread, without a place; both are "" for metadata.
struct FieldRefusal {
  std::string what, remedy;
};

// False for the name of metadata, whatever the row has besides.
bool may_be_refused(const std::string& field);
// used: the fields that make the row's tokens.
FieldRefusal refusal_of_row_field(const UnreadField& field, const std::vector<std::string>& used);
// Every field of a message with values is refused, unless its values are what it has by default.
FieldRefusal refusal_of_message_field(const UnreadField& field);

// The refusal of a row that is of a published format which is not read: ShareGPT, Alpaca,
// preferences. fields: all of the row.
FieldRefusal refusal_of_shape(const std::vector<std::string>& fields);

}  // namespace sluice::data
