// Decides about fields of .jsonl rows and messages that sluice does not read. Fields that affect
// tokens or loss in other trainers are rejected. All others count as metadata and are ignored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data {

// Summary of all values of a field, at any depth. kNone: only null, "", [] or {}. kOnes: all 1 or
// true. kZeros: all 0 or false.
enum class FieldValues : std::uint8_t { kNone, kOnes, kZeros, kOther };

FieldValues joined(FieldValues of_field, FieldValues of_scalar);

struct UnreadField {
  std::string name;
  FieldValues values = FieldValues::kNone;
};

// Why a field is rejected. Empty if the field is accepted as metadata.
struct FieldRefusal {
  std::string what, remedy;
};

// Whether a row with this field is rejected for some values of the field.
bool may_be_refused(const std::string& field);
// Returns why the row is rejected, or an empty refusal. `used` are the fields from which the row's
// tokens are made.
FieldRefusal refusal_of_row_field(const UnreadField& field, const std::vector<std::string>& used);
// Returns why a message's field is rejected. Known fields are accepted only with harmless default
// values.
FieldRefusal refusal_of_message_field(const UnreadField& field);

// Rejects rows in ShareGPT, Alpaca and preference formats, by the names of their fields.
FieldRefusal foreign_format_refusal(const std::vector<std::string>& fields);

}  // namespace sluice::data
