#include "base/format.h"

#include <charconv>
#include <iterator>

namespace sluice::detail {

void ValueText::write_signed(long long value) {
  text_ = {digits_, std::to_chars(std::begin(digits_), std::end(digits_), value).ptr};
}

void ValueText::write_unsigned(unsigned long long value) {
  text_ = {digits_, std::to_chars(std::begin(digits_), std::end(digits_), value).ptr};
}

std::string filled(std::string_view pattern, std::span<const ValueText> values) {
  std::size_t size = pattern.size();
  for (const ValueText& value : values) size += value.text().size();
  std::string text;
  text.reserve(size);
  auto value = values.begin();
  while (true) {
    const std::size_t brace = pattern.find_first_of("{}");
    text += pattern.substr(0, brace);
    if (brace == std::string_view::npos) return text;
    if (pattern[brace + 1] == pattern[brace]) {
      text += pattern[brace];
    } else {
      text += (value++)->text();
    }
    pattern.remove_prefix(brace + 2);
  }
}

}  // namespace sluice::detail
