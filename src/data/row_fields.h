// Decides about fields of .jsonl rows and messages that sluice does not read. Fields that affect
// tokens or loss in other trainers are rejected. Others are metadata.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data {

// All values of a field, at any depth. kNone: only null, "", [] or {}. kOnes: all 1 or true.
// kZeros: all 0 or false.
enum class FieldValues : std::uint8_t { kNone, kOnes, kZeros, kOther };

FieldValues joined(FieldValues of_field, FieldValues of_scalar);

struct UnreadField {
  std::string name;
  FieldValues values = FieldValues::kNone;
};

// Why a field of a data row is rejected, and what to do. Empty if the field is harmless metadata,
// which is ignored.
struct FieldRefusal {
  std::string what, remedy;
};

// Whether some values of the field cause a rejection.
bool may_be_refused(const std::string& field);
// `used` are the fields from which the row's tokens are made.
FieldRefusal refusal_of_row_field(const UnreadField& field, const std::vector<std::string>& used);
// Rejects known fields of messages, unless the values are harmless defaults.
FieldRefusal refusal_of_message_field(const UnreadField& field);

// Rejects preferences, and pairs such as "question" and "answer", by their field names.
FieldRefusal foreign_format_refusal(const std::vector<std::string>& fields);

}  // namespace sluice::data
