#include "data/template/token.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "base/format.h"
#include "data/template/template_error.h"
#include "data/text_cut.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

std::string_view without_trailing_space(std::string_view text) {
  while (const std::size_t space = trailing_space(text)) text.remove_suffix(space);
  return text;
}

// Line ends become '\n', and one line end at the end is dropped.
std::string normal_lines(std::string_view text) {
  std::string lines;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    lines += text[i] == '\r' ? '\n' : text[i];
  }
  if (lines.ends_with('\n')) lines.pop_back();
  return lines;
}

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& name) : text_(normal_lines(text)), name_(name) {}

  std::vector<Token> take() {
    while (at_ < text_.size()) read_text();
    add(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kInput, {.what = "the chat template cannot be read: " + what,
                                    .where = formatted("{}:{}", name_, line_),
                                    .remedy = "mend the template"});
  }

  bool has(std::string_view part, std::size_t at) const {
    return std::string_view(text_).substr(at).starts_with(part);
  }
  bool has(std::string_view part) const { return has(part, at_); }
  char next(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void skip(std::size_t bytes) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes),
                                         '\n'));
    at_ += bytes;
  }
  void skip_space() {
    while (const std::size_t space = leading_space(std::string_view(text_).substr(at_)))
      skip(space);
  }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  // Adds the text before a tag that begins at `tag`. '-' removes white space before the tag. A tag
  // other than {{ that is first on its line loses its indentation, unless it has '+'.
  void add_text(std::size_t tag, bool is_output) {
    std::string_view text = std::string_view(text_).substr(at_, tag - at_);
    const char sign = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
    if (sign == '-') {
      text = without_trailing_space(text);
    } else if (sign != '+' && !is_output) {
      const std::size_t line_end = text.rfind('\n');
      const std::size_t start = line_end == std::string_view::npos ? 0 : line_end + 1;
      std::string_view indent = text.substr(start);
      const bool is_first = start > 0 || at_ == 0 || text_[at_ - 1] == '\n';
      if (is_first && !indent.empty() && without_trailing_space(indent).empty())
        text = text.substr(0, start);
    }
    if (!text.empty()) add(TokenKind::kText, std::string(text));
    skip(tag - at_);
  }

  void read_text() {
    std::size_t tag = text_.find('{', at_);
    while (tag != std::string::npos && !has("{{", tag) && !has("{%", tag) && !has("{#", tag))
      tag = text_.find('{', tag + 1);
    if (tag == std::string::npos) {
      add(TokenKind::kText, text_.substr(at_));
      skip(text_.size() - at_);
      return;
    }
    const char kind = text_[tag + 1];
    add_text(tag, kind == '{');
    skip(2);
    if (next() == '-' || next() == '+') skip(1);
    if (kind == '#') return read_comment();
    if (kind == '%' && is_raw()) return read_raw();
    add(kind == '{' ? TokenKind::kOutputBegin : TokenKind::kBlockBegin, {});
    read_code(kind == '{' ? "}}" : "%}");
    add(kind == '{' ? TokenKind::kOutputEnd : TokenKind::kBlockEnd, {});
  }

  // Skips the end of a block or comment and the white space that goes with it. Returns false if
  // none is here.
  bool skip_end(std::string_view end) {
    const bool is_signed = next() == '-' || (next() == '+' && end != "}}");
    if (!has(end, at_ + (is_signed ? 1 : 0))) return false;
    const char sign = is_signed ? next() : '\0';
    skip(end.size() + (is_signed ? 1 : 0));
    if (sign == '-') skip_space();
    if (sign == '\0' && end != "}}" && next() == '\n') skip(1);
    return true;
  }

  void read_comment() {
    while (at_ < text_.size()) {
      if (skip_end("#}")) return;
      skip(1);
    }
    refuse("a comment does not end");
  }

  bool is_raw() const {
    std::size_t at = at_;
    while (const std::size_t space = leading_space(std::string_view(text_).substr(at))) at += space;
    if (!has("raw", at)) return false;
    at += 3;
    while (const std::size_t space = leading_space(std::string_view(text_).substr(at))) at += space;
    return has("%}", at) || has("-%}", at);
  }

  void read_raw() {
    while (!has("%}")) {
      if (next() == '-') {
        skip(3);
        skip_space();
        break;
      }
      skip(1);
    }
    if (has("%}")) skip(2);
    for (std::size_t tag = text_.find("{%", at_); tag != std::string::npos;
         tag = text_.find("{%", tag + 1)) {
      std::size_t end = tag + 2;
      if (end < text_.size() && (text_[end] == '-' || text_[end] == '+')) ++end;
      while (const std::size_t space = leading_space(std::string_view(text_).substr(end)))
        end += space;
      if (!has("endraw", end)) continue;
      add_text(tag, false);
      skip(end + 6 - at_);
      skip_space();
      if (skip_end("%}")) return;
      refuse("'endraw' is not followed by '%}'");
    }
    refuse("a 'raw' block does not end");
  }

  void read_code(std::string_view end) {
    std::string open;
    for (;;) {
      skip_space();
      if (at_ >= text_.size()) refuse(formatted("'{}' is missing", end));
      if (open.empty() && skip_end(end)) return;
      const char c = next();
      if (is_name_start(c)) {
        std::size_t size = 1;
        while (is_name_part(next(size))) ++size;
        add(TokenKind::kName, text_.substr(at_, size));
        skip(size);
      } else if (is_digit(c)) {
        read_number();
      } else if (c == '\'' || c == '"') {
        read_string(c);
      } else {
        read_operator(open);
      }
    }
  }

  void read_number() {
    std::size_t size = 0;
    std::string digits;
    const auto take_digits = [&] {
      while (is_digit(next(size)) || (next(size) == '_' && is_digit(next(size + 1)))) {
        if (next(size) != '_') digits += next(size);
        ++size;
      }
    };
    take_digits();
    bool is_real = false;
    const bool follows_dot = !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator &&
                             tokens_.back().text == ".";
    if (!follows_dot && next(size) == '.' && is_digit(next(size + 1))) {
      is_real = true;
      digits += next(size++);
      take_digits();
    }
    const std::size_t sign = next(size + 1) == '-' || next(size + 1) == '+' ? 2 : 1;
    if (!follows_dot && (next(size) == 'e' || next(size) == 'E') && is_digit(next(size + sign))) {
      is_real = true;
      digits.append(text_, at_ + size, sign);
      size += sign;
      take_digits();
    }
    Token token{is_real ? TokenKind::kFloat : TokenKind::kInteger, digits, line_};
    if (is_real) {
      token.real = std::strtod(digits.c_str(), nullptr);
    } else {
      const auto [rest, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), token.integer);
      if (error != std::errc() || is_name_start(next(size)) ||
          (digits.size() > 1 && digits.front() == '0'))
        refuse(formatted("the number {} is not supported", digits));
    }
    tokens_.push_back(std::move(token));
    skip(size);
  }

  void read_string(char quote) {
    Token token{TokenKind::kString, {}, line_};
    skip(1);
    while (next() != quote) {
      if (at_ >= text_.size()) refuse("a string does not end");
      if (next() == '\\') {
        skip(1);
        read_escape(token.text);
      } else {
        token.text += next();
        skip(1);
      }
    }
    skip(1);
    tokens_.push_back(std::move(token));
  }

  void read_escape(std::string& text) {
    constexpr std::string_view kNames = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
    const char c = next();
    if (at_ >= text_.size()) refuse("a string does not end");
    if (const std::size_t i = kNames.find(c); i != std::string_view::npos) {
      text += kMeanings[i];
      return skip(1);
    }
    if (c == '\n') return skip(1);
    if (c == 'x' || c == 'u' || c == 'U')
      return read_codepoint(c == 'x' ? 2 : c == 'u' ? 4 : 8, text);
    if (c == 'N' || is_digit(c))
      refuse(formatted("the escape '\\{}' is not supported", std::string(1, c)));
    text += '\\';
  }

  void read_codepoint(std::size_t digits, std::string& text) {
    skip(1);
    std::uint32_t code = 0;
    const char* const begin = text_.data() + at_;
    const std::size_t size = std::min(digits, text_.size() - at_);
    const auto [end, error] = std::from_chars(begin, begin + size, code, 16);
    if (error != std::errc() || end != begin + digits || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000))
      refuse("a string has an escape that is no character");
    append_utf8(text, code);
    skip(digits);
  }

  void read_operator(std::string& open) {
    static constexpr std::string_view kOperators[] = {"==", "!=", ">=", "<=", "**", "//"};
    constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,;";
    for (const std::string_view two : kOperators) {
      if (!has(two)) continue;
      add(TokenKind::kOperator, std::string(two));
      return skip(2);
    }
    const char c = next();
    if (kSingle.find(c) == std::string_view::npos) {
      std::size_t end = at_;
      next_codepoint(text_, end);
      refuse(formatted("the character '{}' is not expected", text_.substr(at_, end - at_)));
    }
    if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c)
        refuse(formatted("'{}' is not expected", std::string(1, c)));
      open.pop_back();
    }
    add(TokenKind::kOperator, std::string(1, c));
    skip(1);
  }

  const std::string text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text, const std::string& name) {
  return Lexer(text, name).take();
}

}  // namespace sluice::data::jinja
