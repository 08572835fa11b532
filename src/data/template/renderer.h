#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "data/template/arguments.h"
#include "data/template/chat_program.h"
#include "data/template/closure.h"
#include "data/template/meter.h"
#include "data/template/node.h"

namespace sluice::data::jinja {

// Variables of a block. Every pass of a loop, macro call and block with its own text has a scope,
// as in Jinja; {% if %} has none.
struct Scope {
  const Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> variables = {};

  void set(std::string_view name, Value value);
  const Value* find(std::string_view name) const;
};

// Renders one conversation. Throws Error(kInput) without a place; line() has the line.
class Renderer {
 public:
  explicit Renderer(std::uint64_t bytes) : meter_(bytes) {}

  Rendered render(const Body& body, const Json& variables);
  int line() const { return line_; }

 private:
  enum class Flow { kNext, kBreak, kContinue };

  Flow run(const Body& body, Scope& scope, std::string& out);
  Flow run(const Statement& statement, Scope& scope, std::string& out);
  Flow run_if(const Statement& statement, Scope& scope, std::string& out);
  Flow run_loop(const Statement& statement, Scope& scope, std::string& out);
  void set_block(const Statement& statement, Scope& scope);
  void assign(Scope& scope, const Target& target, Value value);
  void write(std::string& out, std::string_view text);

  Value evaluate(const Expression& expression, const Scope& scope);
  Value without_level(const Expression& expression, const Scope& scope);
  Value name(const Expression& expression, const Scope& scope) const;
  Value operation(const Expression& expression, const Scope& scope);
  Value comparison(const Expression& expression, const Scope& scope);
  Value concatenation(const Expression& expression, const Scope& scope);
  Value conditional(const Expression& expression, const Scope& scope);
  Value container(const Expression& expression, const Scope& scope);
  Value filter(const Expression& expression, const Scope& scope);
  Value call(const Expression& expression, const Scope& scope);
  Value call_value(const Value& callee, const Expression& expression, const Scope& scope);
  Value call_macro(const Closure& closure, const Arguments& arguments);
  Arguments arguments(const Expression& expression, const Scope& scope);

  Meter meter_;
  int line_ = 1, depth_ = 0, macros_ = 0;
  std::deque<Closure> closures_;
  const std::string* block_text_ = nullptr;  // input of the filters of a {% set %} block
  std::vector<std::pair<std::size_t, std::size_t>> generated_;
};

}  // namespace sluice::data::jinja
