#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/template/node.h"
#include "data/template/token_reader.h"

namespace sluice::data::jinja {

// Functions of every template.
inline constexpr const char* kFunctions[] = {"namespace", "dict", "range", "raise_exception",
                                             "strftime_now"};

// Reads expressions by precedence (Pratt's method).
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenReader& tokens) : tokens_(tokens) {}

  ExpressionPtr expression() { return conditional(true); }
  // Expressions with commas between them are a tuple. Without `takes_if`, "if" ends the expression.
  ExpressionPtr tuple(bool takes_if = true);
  // "| name | name" behind `subject`, which may be null.
  ExpressionPtr filters(ExpressionPtr subject);

  // Limits the nesting of blocks and expressions. The guard leaves at its end.
  class Level {
   public:
    explicit Level(ExpressionParser& parser);
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

  // Names that the template sets, among them macros and parameters.
  void assign(const std::string& name) { assigned_.insert(name); }
  // Throws Error(kInput) for a called function that does not exist. Call it at the end.
  void require_known_names() const;
  bool reads_clock() const { return reads_clock_; }

 private:
  ExpressionPtr make(ExpressionKind kind, int line, std::string name = {}) const;
  ExpressionPtr conditional(bool takes_if);
  ExpressionPtr binary(int least);
  ExpressionPtr comparison(ExpressionPtr left);
  ExpressionPtr unary(bool takes_filters);
  ExpressionPtr primary();
  ExpressionPtr word();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr value);
  ExpressionPtr attribute(ExpressionPtr value);
  ExpressionPtr item(ExpressionPtr value);
  ExpressionPtr call(ExpressionPtr callee);
  ExpressionPtr filters_and_tests(ExpressionPtr value);
  ExpressionPtr test(ExpressionPtr value);
  void arguments(Expression& call);
  void require_known_argument(const Expression& filter, std::size_t place, bool is_filter) const;
  std::string current_operator() const;

  TokenReader& tokens_;
  int depth_ = 0;
  bool reads_clock_ = false;
  std::set<std::string> assigned_;
  std::vector<std::pair<std::string, int>> called_, read_;
};

}  // namespace sluice::data::jinja
