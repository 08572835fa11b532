// The ids that start and end a text, as the config.json beside a tokenizer.json names them.
// Thread-safety: a pure function of the files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice::data {

// The most bytes of a tokenizer.json and of each file beside it.
inline constexpr std::size_t kMaxTokenizerBytes = std::size_t{128} << 20;

struct SpecialIds {
  std::optional<std::int32_t> begin, end;
};

// file: the tokenizer.json. Throws Error(kInput) naming a config.json that is malformed.
SpecialIds read_special_ids(const std::string& file);

}  // namespace sluice::data
