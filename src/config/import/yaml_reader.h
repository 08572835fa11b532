// Reads YAML as the trainers written in Python read it. Untrusted text is safe: nesting above
// kMaxYamlDepth levels and more than kMaxYamlValues values, aliases expanded, are errors.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"

namespace sluice::detail {

constexpr std::size_t kMaxYamlDepth = 64;
constexpr std::size_t kMaxYamlValues = 20000;

struct YamlText {
  Json root;
  std::map<std::string, int> lines;  // of each member of nested maps, by its name with dots
};

// Returns the only document. Throws Error(kUsage) at "file:line:column".
YamlText parse_yaml(const std::string& text, const std::string& file);

// Returns the value of an unquoted scalar: null, a boolean, a number or text. Unlike PyYAML, 2e-5
// is a number, because the trainers convert such text to a number.
Json yaml_scalar(std::string_view text);

}  // namespace sluice::detail
