// Attributes, items and slices of values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/template/meter.h"
#include "data/template/value.h"

namespace sluice::data::jinja {

// The variable `loop` of a {% for %}.
struct Loop {
  std::vector<Value> items;
  std::size_t index = 0;
  std::optional<Value> last_seen = {};  // by loop.changed()
};

// `value.name`: a method first, then an item of a dict. Throws Error(kInput) for an undefined
// value.
Value attribute_of(const Value& value, const std::string& name, Meter& meter);
// `value[index]`: an item first, then a method. Undefined if there is none.
Value item_of(const Value& value, const Value& index, Meter& meter);
// `value[begin:end:step]`; the bounds are integers or None.
Value slice_of(const Value& value, const Value& begin, const Value& end, const Value& step,
               Meter& meter);
// Number of characters of a text, else of items. Throws Error(kInput) for a value without length.
std::int64_t length_of(const Value& value, Meter& meter);
std::int64_t characters_in(std::string_view text);

}  // namespace sluice::data::jinja
