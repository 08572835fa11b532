// formatted("rank {} of {}", rank, num_ranks), a subset of std::format, which g++ 12 lacks. Its
// name differs, because calls with a std::string would also find std::format.
//
// "{}" is the next value, an integer or text; "{{" and "}}" are braces. Patterns are checked at
// compile time. Doubles, bools and characters do not compile, because their text is ambiguous: use
// fixed() and shortest() (base/text.h).
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sluice {
namespace detail {

// Throws at an unmatched brace: a compile error if the pattern is a constant.
constexpr std::size_t num_values(std::string_view pattern) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '{' && pattern[i] != '}') continue;
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] == '{' && next == '}') {
      ++count;
    } else if (next != pattern[i]) {
      throw "a brace is neither of \"{}\" nor doubled";
    }
    ++i;
  }
  return count;
}

template <std::size_t count>
class FormatPattern {
 public:
  consteval FormatPattern(const char* text) : text_(text) {
    if (num_values(text_) != count) throw "the pattern does not have one \"{}\" for each value";
  }
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

template <typename T>
concept NumberValue = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>;

class ValueText {
 public:
  explicit ValueText(std::string_view text) : text_(text) {}
  template <NumberValue T>
  explicit ValueText(T value) {
    if constexpr (std::signed_integral<T>) {
      write_signed(value);
    } else {
      write_unsigned(value);
    }
  }
  ValueText(const ValueText&) = delete;
  ValueText& operator=(const ValueText&) = delete;

  std::string_view text() const { return text_; }

 private:
  void write_signed(long long value);
  void write_unsigned(unsigned long long value);

  char digits_[20];
  std::string_view text_;
};

std::string filled(std::string_view pattern, std::span<const ValueText> values);

}  // namespace detail

template <typename... Values>
std::string formatted(detail::FormatPattern<sizeof...(Values)> pattern, const Values&... values) {
  const detail::ValueText texts[] = {detail::ValueText(values)...};
  return detail::filled(pattern.text(), texts);
}

}  // namespace sluice
