// Splits a chat template into tokens, as Jinja2 does with trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data::jinja {

enum class TokenKind {
  kText,
  kBlockBegin,
  kBlockEnd,
  kOutputBegin,
  kOutputEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenKind kind;
  std::string text;  // of a string without quotation marks and escapes
  int line = 0;
  std::int64_t integer = 0;
  double real = 0;
};

// The last token is kEnd. Throws Error(kInput) at "name:line". Precondition: valid UTF-8.
std::vector<Token> tokenize(std::string_view text, const std::string& name);

}  // namespace sluice::data::jinja
