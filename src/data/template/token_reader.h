#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "data/template/template_error.h"
#include "data/template/token.h"

namespace sluice::data::jinja {

// The tokens of a template and a position among them.
class TokenReader {
 public:
  TokenReader(std::vector<Token> tokens, const std::string& name)
      : tokens_(std::move(tokens)), name_(name) {}

  const Token& now(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& take() {
    const Token& token = now();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  bool is(TokenKind kind) const { return now().kind == kind; }
  bool is_operator(std::string_view text, std::size_t ahead = 0) const {
    return now(ahead).kind == TokenKind::kOperator && now(ahead).text == text;
  }
  bool is_word(std::string_view text, std::size_t ahead = 0) const {
    return now(ahead).kind == TokenKind::kName && now(ahead).text == text;
  }
  bool skip_operator(std::string_view text) {
    const bool found = is_operator(text);
    if (found) take();
    return found;
  }
  bool skip_word(std::string_view text) {
    const bool found = is_word(text);
    if (found) take();
    return found;
  }

  void expect_operator(std::string_view text) {
    if (!skip_operator(text)) refuse_token(formatted("'{}'", text));
  }
  void expect_word(std::string_view text) {
    if (!skip_word(text)) refuse_token(formatted("'{}'", text));
  }
  void expect(TokenKind kind, std::string_view what) {
    if (!is(kind)) refuse_token(std::string(what));
    take();
  }
  std::string expect_name() {
    if (!is(TokenKind::kName)) refuse_token("a name");
    return take().text;
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& remedy, int line) const {
    throw Error(ErrorKind::kInput,
                {.what = what, .where = formatted("{}:{}", name_, line), .remedy = remedy});
  }
  // The template is no valid Jinja.
  [[noreturn]] void refuse_token(const std::string& expected) const {
    refuse(formatted("the chat template cannot be read: {} is expected instead of {}", expected,
                     shown(now())),
           "mend the template", now().line);
  }
  // The template is valid, but uses more than sluice supports.
  [[noreturn]] void refuse_construct(const std::string& what, int line,
                                     const std::string& remedy = kUnsupportedRemedy) const {
    refuse(formatted("the chat template uses {}, which is not supported", what), remedy, line);
  }

 private:
  static std::string shown(const Token& token) {
    switch (token.kind) {
      case TokenKind::kEnd:
        return "the end of the template";
      case TokenKind::kBlockEnd:
        return "'%}'";
      case TokenKind::kOutputEnd:
        return "'}}'";
      case TokenKind::kString:
        return "a string";
      default:
        return "'" + token.text + "'";
    }
  }

  const std::vector<Token> tokens_;
  const std::string& name_;
  std::size_t at_ = 0;
};

}  // namespace sluice::data::jinja
