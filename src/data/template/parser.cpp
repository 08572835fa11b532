#include "data/template/parser.h"

#include <algorithm>
#include <initializer_list>

#include "base/nearest_name.h"
#include "data/template/expression_parser.h"
#include "data/template/token_reader.h"

namespace sluice::data::jinja {
namespace {

using Words = std::initializer_list<std::string_view>;

class Parser {
 public:
  Parser(std::string_view text, const std::string& name)
      : tokens_(tokenize(text, name), name), expressions_(tokens_) {}

  Parsed take() {
    Parsed parsed;
    parsed.body = body({});
    if (!tokens_.is(TokenKind::kEnd)) tokens_.refuse_token("the end of the template");
    expressions_.require_known_names();
    parsed.has_generation = has_generation_;
    parsed.reads_clock = expressions_.reads_clock();
    return parsed;
  }

 private:
  // Reads up to a tag of `ends`, and stops before its name.
  Body body(Words ends) {
    const ExpressionParser::Level level(expressions_);
    Body made;
    for (;;) {
      const int line = tokens_.now().line;
      if (tokens_.is(TokenKind::kText)) {
        made.push_back({StatementKind::kText, line, tokens_.take().text});
      } else if (tokens_.is(TokenKind::kOutputBegin)) {
        tokens_.take();
        made.push_back({StatementKind::kOutput, line});
        made.back().value = expressions_.tuple();
        tokens_.expect(TokenKind::kOutputEnd, "'}}'");
      } else if (tokens_.is(TokenKind::kBlockBegin)) {
        tokens_.take();
        for (const std::string_view end : ends)
          if (tokens_.is_word(end)) return made;
        made.push_back(statement());
        tokens_.expect(TokenKind::kBlockEnd, "'%}'");
      } else {
        if (ends.size() > 0) tokens_.refuse_token(formatted("'{{% {} %}}'", *(ends.end() - 1)));
        return made;
      }
    }
  }

  std::unique_ptr<Body> block(Words ends) {
    tokens_.skip_operator(":");
    tokens_.expect(TokenKind::kBlockEnd, "'%}'");
    return std::make_unique<Body>(body(ends));
  }

  // A body that is no part of the text around it. No loop around the body can be left from there.
  std::unique_ptr<Body> separate_block(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    ++separate_;
    std::unique_ptr<Body> made = block({end});
    tokens_.take();
    --separate_;
    loops_ = loops;
    return made;
  }

  Statement statement() {
    const int line = tokens_.now().line;
    const std::string tag = tokens_.expect_name();
    if (tag == "for") return for_loop(line);
    if (tag == "if") return if_block(line);
    if (tag == "set") return assignment(line);
    if (tag == "macro") return macro(line);
    if (tag == "generation") return generation(line);
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) tokens_.refuse_token("a loop around the tag");
      return {tag == "break" ? StatementKind::kBreak : StatementKind::kContinue, line};
    }
    static const std::vector<std::string> known = {"for",   "if",         "set",     "macro",
                                                   "break", "generation", "continue"};
    const std::string near = nearest_name(tag, known);
    tokens_.refuse_construct(
        formatted("the tag '{}'", tag), line,
        near.empty() ? kUnsupportedRemedy : formatted("did you mean '{}'?", near));
  }

  void add_name(Target& target) {
    if (tokens_.is_operator("("))
      tokens_.refuse_construct("nested names of a tuple", tokens_.now().line);
    target.names.push_back(tokens_.expect_name());
    expressions_.assign(target.names.back());
  }

  Target names() {
    Target target;
    const bool has_bracket = tokens_.skip_operator("(");
    do {
      if (!target.names.empty()) {
        target.is_tuple = true;
        if (!tokens_.is(TokenKind::kName) || tokens_.is_word("in")) break;
      }
      add_name(target);
    } while (tokens_.skip_operator(","));
    if (has_bracket) tokens_.expect_operator(")");
    return target;
  }

  Statement for_loop(int line) {
    Statement made{StatementKind::kFor, line};
    made.target = names();
    tokens_.expect_word("in");
    made.value = expressions_.tuple(false);
    if (tokens_.skip_word("if")) made.condition = expressions_.expression();
    if (tokens_.is_word("recursive")) tokens_.refuse_construct("a recursive loop", line);
    expressions_.assign("loop");
    ++loops_;
    made.branches.push_back({nullptr, block({"else", "endfor"})});
    --loops_;
    if (tokens_.skip_word("else")) made.branches.push_back({nullptr, block({"endfor"})});
    tokens_.expect_word("endfor");
    return made;
  }

  Statement if_block(int line) {
    Statement made{StatementKind::kIf, line};
    do {
      ExpressionPtr condition = expressions_.tuple(false);
      made.branches.push_back({std::move(condition), block({"elif", "else", "endif"})});
    } while (tokens_.skip_word("elif"));
    if (tokens_.skip_word("else")) made.branches.push_back({nullptr, block({"endif"})});
    tokens_.expect_word("endif");
    return made;
  }

  Statement assignment(int line) {
    Statement made{StatementKind::kSet, line};
    made.target = names();
    if (tokens_.skip_operator(".")) made.target.attribute = tokens_.expect_name();
    if (made.target.attribute.starts_with('_'))
      tokens_.refuse_construct(formatted("the attribute '{}'", made.target.attribute), line);
    if (tokens_.skip_operator("=")) {
      made.value = expressions_.tuple();
      return made;
    }
    if (made.target.is_tuple) tokens_.refuse_token("'='");
    made.kind = StatementKind::kSetBlock;
    made.value = expressions_.filters(nullptr);
    made.branches.push_back({nullptr, separate_block("endset")});
    return made;
  }

  Statement macro(int line) {
    Statement made{StatementKind::kMacro, line};
    made.macro = std::make_unique<Macro>();
    Macro& macro = *made.macro;
    macro.line = line;
    macro.name = tokens_.expect_name();
    expressions_.assign(macro.name);
    tokens_.expect_operator("(");
    while (!tokens_.is_operator(")")) {
      macro.parameters.push_back(tokens_.expect_name());
      expressions_.assign(macro.parameters.back());
      if (tokens_.skip_operator("=")) {
        macro.defaults.push_back(expressions_.expression());
      } else if (!macro.defaults.empty()) {
        tokens_.refuse_token("'='");
      }
      if (!tokens_.skip_operator(",")) break;
    }
    tokens_.expect_operator(")");
    macro.body = separate_block("endmacro");
    return made;
  }

  Statement generation(int line) {
    if (separate_ > 0) tokens_.refuse_construct("'generation' in a macro or another block", line);
    has_generation_ = true;
    Statement made{StatementKind::kGeneration, line};
    made.branches.push_back({nullptr, separate_block("endgeneration")});
    return made;
  }

  TokenReader tokens_;
  ExpressionParser expressions_;
  int loops_ = 0, separate_ = 0;
  bool has_generation_ = false;
};

}  // namespace

Parsed parse_template(std::string_view text, const std::string& name) {
  return Parser(text, name).take();
}

}  // namespace sluice::data::jinja
