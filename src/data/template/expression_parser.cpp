#include "data/template/expression_parser.h"

#include <algorithm>

#include "base/nearest_name.h"
#include "data/template/filters.h"
#include "data/template/methods.h"

namespace sluice::data::jinja {
namespace {

// From loose to tight. "not" is a prefix of level 3. Operators of a level group from the left.
int level_of(const std::string& operation) {
  static const std::vector<std::pair<int, std::vector<std::string_view>>> levels = {
      {1, {"or"}},     {2, {"and"}}, {4, {"==", "!=", "<", "<=", ">", ">=", "in", "not in"}},
      {5, {"+", "-"}}, {6, {"~"}},   {7, {"*", "/", "//", "%"}},
      {8, {"**"}}};
  for (const auto& [level, operations] : levels)
    if (std::find(operations.begin(), operations.end(), operation) != operations.end())
      return level;
  return 0;
}
constexpr int kNotLevel = 3, kCompareLevel = 4, kConcatLevel = 6;

std::string nearest_remedy(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest_name(name, known);
  return near.empty() ? kUnsupportedRemedy
                      : formatted("did you mean '{}'? If not, {}", near, kUnsupportedRemedy);
}

}  // namespace

ExpressionParser::Level::Level(ExpressionParser& parser) : parser_(parser) {
  if (++parser.depth_ > kMaxDepth) {
    --parser.depth_;
    parser.tokens_.refuse("the chat template is nested more than 64 deep", "simplify the template",
                          parser.tokens_.now().line);
  }
}

ExpressionPtr ExpressionParser::make(ExpressionKind kind, int line, std::string name) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = line;
  made->name = std::move(name);
  return made;
}

ExpressionPtr ExpressionParser::tuple(bool takes_if) {
  const int line = tokens_.now().line;
  std::vector<ExpressionPtr> parts;
  bool is_tuple = false;
  const auto is_end = [&] {
    return tokens_.is(TokenKind::kOutputEnd) || tokens_.is(TokenKind::kBlockEnd) ||
           tokens_.is_operator(")");
  };
  while (parts.empty() || !is_end()) {
    parts.push_back(conditional(takes_if));
    if (!tokens_.skip_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) return std::move(parts.front());
  ExpressionPtr made = make(ExpressionKind::kTuple, line);
  made->parts = std::move(parts);
  return made;
}

ExpressionPtr ExpressionParser::conditional(bool takes_if) {
  const Level level(*this);
  const int line = tokens_.now().line;
  ExpressionPtr value = binary(1);
  while (takes_if && tokens_.skip_word("if")) {
    ExpressionPtr made = make(ExpressionKind::kConditional, line);
    made->parts.push_back(binary(1));
    made->parts.push_back(std::move(value));
    made->parts.push_back(tokens_.skip_word("else") ? conditional(true) : nullptr);
    value = std::move(made);
  }
  return value;
}

std::string ExpressionParser::current_operator() const {
  if (tokens_.is_word("not") && tokens_.is_word("in", 1)) return "not in";
  const bool is_word = tokens_.is_word("or") || tokens_.is_word("and") || tokens_.is_word("in");
  return is_word || tokens_.is(TokenKind::kOperator) ? tokens_.now().text : "";
}

ExpressionPtr ExpressionParser::binary(int least) {
  const int line = tokens_.now().line;
  ExpressionPtr left;
  if (least <= kNotLevel && tokens_.is_word("not")) {
    const Level level(*this);
    tokens_.take();
    left = make(ExpressionKind::kUnary, line, "not");
    left->parts.push_back(binary(kNotLevel));
  } else {
    left = unary(true);
  }
  for (;;) {
    const std::string operation = current_operator();
    const int level = level_of(operation);
    if (level == 0 || level < least) return left;
    if (level == kCompareLevel) {
      left = comparison(std::move(left));
      continue;
    }
    tokens_.take();
    const bool continues = level == kConcatLevel && left->kind == ExpressionKind::kConcat;
    if (!continues) {
      ExpressionPtr made =
          make(level == kConcatLevel ? ExpressionKind::kConcat : ExpressionKind::kBinary, line,
               operation);
      made->parts.push_back(std::move(left));
      left = std::move(made);
    }
    left->parts.push_back(binary(level + 1));
  }
}

ExpressionPtr ExpressionParser::comparison(ExpressionPtr left) {
  ExpressionPtr made = make(ExpressionKind::kCompare, left->line);
  made->parts.push_back(std::move(left));
  for (std::string operation = current_operator(); level_of(operation) == kCompareLevel;
       operation = current_operator()) {
    tokens_.take();
    if (operation == "not in") tokens_.take();
    made->operators.push_back(operation);
    made->parts.push_back(binary(kCompareLevel + 1));
  }
  return made;
}

ExpressionPtr ExpressionParser::unary(bool takes_filters) {
  const int line = tokens_.now().line;
  ExpressionPtr value;
  if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
    const Level level(*this);
    value = make(ExpressionKind::kUnary, line, tokens_.take().text);
    value->parts.push_back(unary(false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return takes_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::primary() {
  const int line = tokens_.now().line;
  if (tokens_.is(TokenKind::kName)) return word();
  if (tokens_.is_operator("[")) return list();
  if (tokens_.is_operator("{")) return dict();
  if (tokens_.skip_operator("(")) {
    ExpressionPtr value = tokens_.is_operator(")") ? make(ExpressionKind::kTuple, line) : tuple();
    tokens_.expect_operator(")");
    return value;
  }
  ExpressionPtr value = make(ExpressionKind::kConstant, line);
  if (tokens_.is(TokenKind::kString)) {
    std::string text;
    while (tokens_.is(TokenKind::kString)) text += tokens_.take().text;
    value->constant = text_value(std::move(text));
  } else if (tokens_.is(TokenKind::kInteger)) {
    value->constant = tokens_.take().integer;
  } else if (tokens_.is(TokenKind::kFloat)) {
    value->constant = tokens_.take().real;
  } else {
    tokens_.refuse_token("an expression");
  }
  return value;
}

ExpressionPtr ExpressionParser::word() {
  static constexpr std::string_view kKeywords[] = {"and", "else", "if", "in", "is", "not", "or"};
  const int line = tokens_.now().line;
  if (std::find(std::begin(kKeywords), std::end(kKeywords), tokens_.now().text) !=
      std::end(kKeywords))
    tokens_.refuse_token("an expression");
  const std::string name = tokens_.take().text;
  ExpressionPtr constant = make(ExpressionKind::kConstant, line);
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    constant->constant = name == "true" || name == "True";
    return constant;
  }
  if (name == "none" || name == "None") {
    constant->constant = None{};
    return constant;
  }
  read_.emplace_back(name, line);
  return make(ExpressionKind::kName, line, name);
}

ExpressionPtr ExpressionParser::list() {
  ExpressionPtr made = make(ExpressionKind::kList, tokens_.take().line);
  while (!tokens_.is_operator("]")) {
    made->parts.push_back(expression());
    if (!tokens_.skip_operator(",")) break;
  }
  tokens_.expect_operator("]");
  return made;
}

ExpressionPtr ExpressionParser::dict() {
  ExpressionPtr made = make(ExpressionKind::kDict, tokens_.take().line);
  while (!tokens_.is_operator("}")) {
    made->parts.push_back(expression());
    tokens_.expect_operator(":");
    made->parts.push_back(expression());
    if (!tokens_.skip_operator(",")) break;
  }
  tokens_.expect_operator("}");
  return made;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr value) {
  for (;;) {
    if (tokens_.is_operator(".")) {
      value = attribute(std::move(value));
    } else if (tokens_.is_operator("[")) {
      value = item(std::move(value));
    } else if (tokens_.is_operator("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::attribute(ExpressionPtr value) {
  const int line = tokens_.take().line;
  ExpressionPtr made = make(ExpressionKind::kAttribute, line);
  made->parts.push_back(std::move(value));
  if (tokens_.is(TokenKind::kInteger)) {
    made->kind = ExpressionKind::kItem;
    made->parts.push_back(make(ExpressionKind::kConstant, line));
    made->parts.back()->constant = tokens_.take().integer;
    return made;
  }
  made->name = tokens_.expect_name();
  if (made->name.starts_with('_'))
    tokens_.refuse_construct(formatted("the attribute '{}'", made->name), line);
  return made;
}

ExpressionPtr ExpressionParser::item(ExpressionPtr value) {
  ExpressionPtr made = make(ExpressionKind::kItem, tokens_.take().line);
  made->parts.push_back(std::move(value));
  const auto is_bound = [&] { return !tokens_.is_operator(":") && !tokens_.is_operator("]"); };
  made->parts.push_back(tokens_.is_operator(":") ? nullptr : expression());
  if (tokens_.skip_operator(":")) {
    made->kind = ExpressionKind::kSlice;
    made->parts.push_back(is_bound() ? expression() : nullptr);
    const bool has_step = tokens_.skip_operator(":") && is_bound();
    made->parts.push_back(has_step ? expression() : nullptr);
  }
  if (tokens_.is_operator(","))
    tokens_.refuse_construct("an index with a comma", tokens_.now().line);
  tokens_.expect_operator("]");
  return made;
}

ExpressionPtr ExpressionParser::call(ExpressionPtr callee) {
  const int line = tokens_.now().line;
  ExpressionPtr made = make(ExpressionKind::kCall, line, callee->name);
  if (callee->kind == ExpressionKind::kAttribute) {
    const std::vector<std::string> known = method_names();
    if (std::find(known.begin(), known.end(), callee->name) == known.end())
      tokens_.refuse_construct(formatted("the method '{}()'", callee->name), line,
                               nearest_remedy(callee->name, known));
    made->parts.push_back(std::move(callee->parts.front()));
  } else if (callee->kind == ExpressionKind::kName) {
    called_.emplace_back(callee->name, line);
    reads_clock_ |= callee->name == "strftime_now";
  } else {
    made->kind = ExpressionKind::kCallValue;
    made->parts.push_back(std::move(callee));
  }
  arguments(*made);
  return made;
}

void ExpressionParser::arguments(Expression& call) {
  tokens_.expect_operator("(");
  while (!tokens_.is_operator(")")) {
    const int line = tokens_.now().line;
    if (tokens_.is_operator("**")) tokens_.refuse_construct("'**' before an argument", line);
    if (tokens_.is(TokenKind::kName) && tokens_.is_operator("=", 1)) {
      std::string name = tokens_.take().text;
      tokens_.take();
      call.named.emplace_back(std::move(name), expression());
    } else {
      if (!call.named.empty()) tokens_.refuse_token("an argument with a name");
      const bool is_spread = tokens_.skip_operator("*");
      ExpressionPtr argument = expression();
      if (is_spread) {
        call.arguments.push_back(make(ExpressionKind::kSpread, line));
        call.arguments.back()->parts.push_back(std::move(argument));
      } else {
        call.arguments.push_back(std::move(argument));
      }
    }
    if (!tokens_.skip_operator(",")) break;
  }
  tokens_.expect_operator(")");
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr value) {
  for (;;) {
    if (tokens_.is_operator("|")) {
      value = filters(std::move(value));
    } else if (tokens_.is_word("is")) {
      value = test(std::move(value));
    } else if (tokens_.is_operator("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr subject) {
  while (tokens_.skip_operator("|")) {
    const int line = tokens_.now().line;
    ExpressionPtr made = make(ExpressionKind::kFilter, line, tokens_.expect_name());
    made->filter = find_filter(made->name);
    if (!made->filter)
      tokens_.refuse_construct(formatted("the filter '{}'", made->name), line,
                               nearest_remedy(made->name, filter_names()));
    made->parts.push_back(std::move(subject));
    if (tokens_.is_operator("(")) arguments(*made);
    if (made->name == "map" && !made->arguments.empty()) require_known_argument(*made, 0, true);
    const bool has_attribute = made->name == "selectattr" || made->name == "rejectattr";
    if (has_attribute || made->name == "select" || made->name == "reject")
      require_known_argument(*made, has_attribute ? 1 : 0, false);
    subject = std::move(made);
  }
  return subject;
}

// A filter such as 'map' takes the name of another filter or of a test.
void ExpressionParser::require_known_argument(const Expression& filter, std::size_t place,
                                              bool is_filter) const {
  if (filter.arguments.size() <= place) return;
  const std::string* name = text_in(filter.arguments[place]->constant);
  if (!name)
    tokens_.refuse_construct(formatted("'{}' with a name that is not written out", filter.name),
                             filter.line);
  if (is_filter ? find_filter(*name) != nullptr : find_test(*name) != nullptr) return;
  tokens_.refuse_construct(formatted("the {} '{}'", is_filter ? "filter" : "test", *name),
                           filter.line,
                           nearest_remedy(*name, is_filter ? filter_names() : test_names()));
}

ExpressionPtr ExpressionParser::test(ExpressionPtr value) {
  const int line = tokens_.take().line;
  const bool is_negated = tokens_.skip_word("not");
  ExpressionPtr made = make(ExpressionKind::kTest, line, tokens_.expect_name());
  made->test = find_test(made->name);
  if (!made->test)
    tokens_.refuse_construct(formatted("the test '{}'", made->name), line,
                             nearest_remedy(made->name, test_names()));
  made->parts.push_back(std::move(value));
  const bool is_argument = tokens_.is(TokenKind::kString) || tokens_.is(TokenKind::kInteger) ||
                           tokens_.is(TokenKind::kFloat) || tokens_.is_operator("[") ||
                           tokens_.is_operator("{") ||
                           (tokens_.is(TokenKind::kName) && !tokens_.is_word("else") &&
                            !tokens_.is_word("or") && !tokens_.is_word("and"));
  if (tokens_.is_operator("(")) {
    arguments(*made);
  } else if (is_argument) {
    const Level level(*this);
    made->arguments.push_back(postfix(primary()));
  }
  if (!is_negated) return made;
  ExpressionPtr negated = make(ExpressionKind::kUnary, line, "not");
  negated->parts.push_back(std::move(made));
  return negated;
}

void ExpressionParser::require_known_names() const {
  std::vector<std::string> known(std::begin(kFunctions), std::end(kFunctions));
  for (const auto& [name, line] : called_) {
    if (assigned_.count(name) > 0 || std::find(known.begin(), known.end(), name) != known.end())
      continue;
    known.insert(known.end(), assigned_.begin(), assigned_.end());
    tokens_.refuse_construct(formatted("the function '{}()'", name), line,
                             nearest_remedy(name, known));
  }
  static constexpr std::string_view kOthers[] = {"lipsum",  "cycler", "joiner", "self",
                                                 "varargs", "kwargs", "caller", "super"};
  for (const auto& [name, line] : read_) {
    if (assigned_.count(name) == 0 &&
        std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers))
      tokens_.refuse_construct(formatted("'{}'", name), line);
  }
}

}  // namespace sluice::data::jinja
