// Properties for arbitrary input bytes: parsing either throws an Error of kind kInput or returns a
// valid value. The libFuzzer targets and the mutation tests check them. Does not use torch.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/safetensors_header.h"
#include "data/jsonl_row.h"
#include "fuzz/require.h"
#include "sluice/error.h"

namespace sluice::test {

// `bytes` are the header JSON and the data, cut at `header_size`. Returns whether the header was
// accepted.
inline bool check_safetensors(std::string_view bytes, std::size_t header_size) {
  const std::string_view json = bytes.substr(0, header_size);
  const std::uint64_t data_bytes = bytes.size() - json.size();
  SafetensorsHeader header;
  try {
    header = parse_safetensors_header(json, data_bytes, "fuzz.safetensors");
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kInput);
    return false;
  }
  std::uint64_t position = 0;
  std::set<std::string> names;
  for (const SafetensorsEntry& entry : header.entries) {
    require(names.insert(entry.name).second);
    require(entry.begin == position && entry.end >= entry.begin && entry.end <= data_bytes);
    auto bits = static_cast<std::uint64_t>(safetensors_dtype_bits(entry.dtype));
    require(bits != 0);
    for (const std::int64_t size : entry.shape) {
      require(size >= 0 && !__builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits));
    }
    require(bits % 8 == 0 && entry.end - entry.begin == bits / 8);
    position = entry.end;
  }
  require(position == data_bytes);
  const std::string written = to_json(header);
  require(written.size() % 8 == 0);
  require(to_json(parse_safetensors_header(written, data_bytes, "fuzz.safetensors")) == written);
  return true;
}

// Reads the fields of a model's inputs, from rows with and without tokens.
inline void check_fields_of_row(std::string_view json) {
  const std::vector<FieldOption> fields = {{"a", "float32", {kAnySize, 2}},
                                           {"b", "int64", {}},
                                           {"c", "bool", {kAnySize, kAnySize, kAnySize}},
                                           {"labels", "int8", {kAnySize}}};
  for (std::size_t asked = 1; asked <= fields.size(); ++asked) {
    const std::span some = std::span(fields).subspan(asked - 1, 1);
    try {
      const data::JsonlRow row =
          data::parse_jsonl_row(json, "fuzz.jsonl:1", {.tokens = asked % 2 == 0, .fields = some});
      require(row.values.size() == 1 && row.values[0].sizes.size() == some[0].sizes.size());
      std::size_t numel = 1;
      for (const std::int64_t size : row.values[0].sizes) numel *= static_cast<std::size_t>(size);
      std::visit([&](const auto& numbers) { require(numbers.size() == numel); },
                 row.values[0].numbers);
      require(numel <= json.size());
    } catch (const Error& error) {
      require(error.kind() == ErrorKind::kInput && error.where() == "fuzz.jsonl:1");
    }
  }
}

inline bool check_jsonl_row(std::string_view json) {
  check_fields_of_row(json);
  try {
    const data::JsonlRow row = data::parse_jsonl_row(json, "fuzz.jsonl:1");
    // A row must not allocate more memory than its text can justify.
    require(!row.text || row.text->size() <= json.size());
    require(!row.input_ids || row.input_ids->size() <= json.size());
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kInput);
    return false;
  }
  return true;
}

}  // namespace sluice::test
