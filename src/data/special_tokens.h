// Reads the begin-of-text and end-of-text ids from a tokenizer's config.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice::data {

// Size limit of tokenizer.json and of each file beside it.
inline constexpr std::size_t kMaxTokenizerBytes = std::size_t{128} << 20;

struct SpecialIds {
  std::optional<std::int32_t> begin, end;
};

SpecialIds read_special_ids(const std::string& file);

}  // namespace sluice::data
