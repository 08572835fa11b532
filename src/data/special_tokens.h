// Reads the ids of the begin-of-text and end-of-text tokens from the config.json beside a
// tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice::data {

// Size limit of tokenizer.json and of each file in its directory.
inline constexpr std::size_t kMaxTokenizerBytes = std::size_t{128} << 20;

struct SpecialIds {
  std::optional<std::int32_t> begin, end;
};

SpecialIds read_special_ids(const std::string& file);

}  // namespace sluice::data
