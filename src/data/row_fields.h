// Unknown fields of .jsonl rows and messages. A field that other trainers use for the tokens or the
// loss is rejected, because ignoring it would train differently. All others are metadata.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data {

// Summary of a field's values at any depth. kNone means only null, "", [] or {}. kOnes and kZeros
// include true and false.
enum class FieldValues : std::uint8_t { kNone, kOnes, kZeros, kOther };

FieldValues joined(FieldValues of_field, FieldValues of_scalar);

struct UnreadField {
  std::string name;
  FieldValues values = FieldValues::kNone;
};

// Error text without the place. Both are "" for metadata.
struct FieldRefusal {
  std::string what, remedy;
};

// Whether some row with this field would be rejected.
bool may_be_refused(const std::string& field);
// `used` are the fields that make the row's tokens.
FieldRefusal refusal_of_row_field(const UnreadField& field, const std::vector<std::string>& used);
// Rejects message fields, except for harmless default values.
FieldRefusal refusal_of_message_field(const UnreadField& field);

// Rejects rows in the formats of ShareGPT, Alpaca and preference data. `fields` are all names of
// the row.
FieldRefusal refusal_of_shape(const std::vector<std::string>& fields);

}  // namespace sluice::data
