// One row of a .jsonl file: its fields, checked; anything else in it is skipped without being kept.
//
// No torch. Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data {

struct JsonlRow {
  std::optional<std::string> text;
  std::optional<std::vector<std::int64_t>> input_ids, labels, attention_mask;
};

// Throws Error(kInput) at `where` ("file:line"): not a JSON object, a known field of the wrong type
// or given twice.
JsonlRow parse_jsonl_row(std::string_view json, const std::string& where);

}  // namespace sluice::data
