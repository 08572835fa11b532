#pragma once

#include <optional>
#include <string>

#include "data/template/meter.h"
#include "data/template/value.h"

namespace sluice::data::jinja {

// Python's str(value). A text without quotation marks, "" for an undefined value.
std::string shown_text(const Value& value, Meter& meter);
// Python's repr(float): "1.0", "1e-05".
std::string real_text(double value);

// Arguments of Python's json.dumps().
struct JsonLayout {
  bool ascii = false, sorted = false;
  std::optional<std::string> indent = {};
  std::string between = ", ", colon = ": ";
};
std::string json_text(const Value& value, const JsonLayout& layout, Meter& meter);

}  // namespace sluice::data::jinja
