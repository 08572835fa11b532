#include "data/template/letters.h"

#include <algorithm>

#include "base/format.h"
#include "data/template/template_error.h"
#include "data/text_cut.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data::jinja {
namespace {

// Letters that may have another form in upper case, and letters without case that separate words.
const CodepointBits& letters_with_upper_case() {
  static const CodepointBits bits([] {
    CodepointRanges ranges = {{0x345, 0x345}, {0x24D0, 0x24E9}};
    for (const char* property : {"Ll", "Lt", "Nl"}) {
      const CodepointRanges more = *property_ranges(property);
      ranges.insert(ranges.end(), more.begin(), more.end());
    }
    return joined(std::move(ranges));
  }());
  return bits;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

void require_ascii(std::string_view text, const char* what) {
  if (!is_ascii(text))
    fail(formatted("'{}' of text with letters beyond ASCII is not supported by chat templates",
                   what));
}

}  // namespace

std::string lower_text(std::string_view text) {
  // Python writes a capital sigma at the end of a word differently.
  if (text.find("\xCE\xA3") != std::string_view::npos) require_ascii(text, "lower");
  std::string made;
  append_lowercase(made, text);
  return made;
}

std::string upper_text(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_codepoint(text, at);
    if (c >= 0x80 && letters_with_upper_case().has(c)) require_ascii(text, "upper");
  }
  std::string made(text);
  std::transform(made.begin(), made.end(), made.begin(), upper);
  return made;
}

std::string title_text(std::string_view text) {
  require_ascii(text, "title");
  std::string made(text);
  bool is_in_word = false;
  for (char& c : made) {
    c = is_in_word ? lower(c) : upper(c);
    is_in_word = is_letter(c);
  }
  return made;
}

std::string capital_text(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t first = utf8_length(text.front());
  return upper_text(text.substr(0, first)) + lower_text(text.substr(first));
}

std::string_view stripped_left(std::string_view text,
                               const std::optional<std::string>& characters) {
  while (!text.empty()) {
    const std::size_t size = utf8_length(text.front());
    const std::size_t taken = !characters ? leading_space(text)
                              : characters->find(text.substr(0, size)) != std::string::npos ? size
                                                                                            : 0;
    if (taken == 0) break;
    text.remove_prefix(taken);
  }
  return text;
}

std::string_view stripped_right(std::string_view text,
                                const std::optional<std::string>& characters) {
  while (!text.empty()) {
    const std::size_t size = text.size() - previous_character(text, text.size());
    const std::string_view last = text.substr(text.size() - size);
    const std::size_t taken = !characters                                   ? trailing_space(text)
                              : characters->find(last) != std::string::npos ? size
                                                                            : 0;
    if (taken == 0) break;
    text.remove_suffix(taken);
  }
  return text;
}

}  // namespace sluice::data::jinja
