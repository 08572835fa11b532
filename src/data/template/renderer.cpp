#include "data/template/renderer.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/format.h"
#include "data/template/access.h"
#include "data/template/expression_parser.h"
#include "data/template/filters.h"
#include "data/template/functions.h"
#include "data/template/methods.h"
#include "data/template/operators.h"
#include "data/template/value_text.h"

namespace sluice::data::jinja {
namespace {

constexpr int kMaxMacros = kMaxDepth;
// Blocks and expressions within macros within blocks: bounds the stack.
constexpr int kMaxNesting = 8 * kMaxDepth;

class Nested {
 public:
  Nested(int& depth, int most) : depth_(depth) {
    if (++depth_ <= most) return;
    --depth_;
    fail("the chat template nests its macros more than 64 deep", "does a macro call itself?");
  }
  ~Nested() { --depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  int& depth_;
};

bool is_function(std::string_view name) {
  return std::find(std::begin(kFunctions), std::end(kFunctions), name) != std::end(kFunctions);
}

}  // namespace

void Scope::set(std::string_view name, Value value) {
  for (auto& [known, old] : variables) {
    if (known != name) continue;
    old = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->parent) {
    for (const auto& [known, value] : scope->variables)
      if (known == name) return &value;
  }
  return nullptr;
}

Rendered Renderer::render(const Body& body, const Json& variables) {
  Scope globals, root{&globals};
  for (const Json::Member& member : variables.members())
    globals.set(member.key, value_of(member.value));
  Rendered rendered;
  run(body, root, rendered.text);
  rendered.generated = std::move(generated_);
  return rendered;
}

void Renderer::write(std::string& out, std::string_view text) {
  meter_.require_size(text.size());
  if (out.size() + text.size() > kMaxOutputBytes) meter_.require_size(kMaxOutputBytes + 1);
  out += text;
}

Renderer::Flow Renderer::run(const Body& body, Scope& scope, std::string& out) {
  const Nested level(depth_, kMaxNesting);
  for (const Statement& statement : body) {
    line_ = statement.line;
    const Flow flow = run(statement, scope, out);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Renderer::Flow Renderer::run(const Statement& statement, Scope& scope, std::string& out) {
  meter_.spend(1);
  switch (statement.kind) {
    case StatementKind::kText:
      write(out, statement.text);
      break;
    case StatementKind::kOutput:
      write(out, shown_text(evaluate(*statement.value, scope), meter_));
      break;
    case StatementKind::kIf:
      return run_if(statement, scope, out);
    case StatementKind::kFor:
      return run_loop(statement, scope, out);
    case StatementKind::kSet:
      assign(scope, statement.target, evaluate(*statement.value, scope));
      break;
    case StatementKind::kSetBlock:
      set_block(statement, scope);
      break;
    case StatementKind::kMacro:
      closures_.push_back({statement.macro.get(), &scope, scope.parent && !scope.parent->parent});
      scope.set(statement.macro->name, &closures_.back());
      break;
    case StatementKind::kGeneration: {
      Scope inner{&scope};
      const std::size_t begin = out.size();
      run(*statement.branches.front().body, inner, out);
      generated_.emplace_back(begin, out.size());
      break;
    }
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Renderer::Flow Renderer::run_if(const Statement& statement, Scope& scope, std::string& out) {
  for (const Branch& branch : statement.branches) {
    if (!branch.condition || is_true(evaluate(*branch.condition, scope)))
      return run(*branch.body, scope, out);
  }
  return Flow::kNext;
}

Renderer::Flow Renderer::run_loop(const Statement& statement, Scope& scope, std::string& out) {
  Loop loop;
  for (Value& item : items_of(evaluate(*statement.value, scope), meter_)) {
    if (statement.condition) {
      Scope inner{&scope};
      assign(inner, statement.target, item);
      if (!is_true(evaluate(*statement.condition, inner))) continue;
    }
    loop.items.push_back(std::move(item));
  }
  if (loop.items.empty() && statement.branches.size() > 1) {
    Scope inner{&scope};
    return run(*statement.branches[1].body, inner, out);
  }
  for (; loop.index < loop.items.size(); ++loop.index) {
    Scope inner{&scope};
    line_ = statement.line;
    inner.set("loop", &loop);
    assign(inner, statement.target, loop.items[loop.index]);
    if (run(*statement.branches.front().body, inner, out) == Flow::kBreak) break;
  }
  return Flow::kNext;
}

void Renderer::set_block(const Statement& statement, Scope& scope) {
  Scope inner{&scope};
  std::string text;
  run(*statement.branches.front().body, inner, text);
  if (!statement.value) return assign(scope, statement.target, meter_.text(std::move(text)));
  const std::string* const around = std::exchange(block_text_, &text);
  Value value = evaluate(*statement.value, scope);
  block_text_ = around;
  assign(scope, statement.target, std::move(value));
}

void Renderer::assign(Scope& scope, const Target& target, Value value) {
  if (!target.attribute.empty()) {
    const Value* space = scope.find(target.names.front());
    if (!space || !is<std::shared_ptr<Namespace>>(*space))
      fail(formatted("'{}' is no namespace, so '{}' cannot be set", target.names.front(),
                     target.attribute));
    require_storable(value);
    std::get<std::shared_ptr<Namespace>>(*space)->attributes.insert_or_assign(target.attribute,
                                                                              std::move(value));
    return;
  }
  if (!target.is_tuple) return scope.set(target.names.front(), std::move(value));
  const std::vector<Value> items = items_of(value, meter_);
  if (items.size() != target.names.size())
    fail(formatted("{} values are assigned to {} names", items.size(), target.names.size()));
  for (std::size_t i = 0; i < items.size(); ++i) scope.set(target.names[i], items[i]);
}

Value Renderer::evaluate(const Expression& expression, const Scope& scope) {
  const Nested level(depth_, kMaxNesting);
  meter_.spend(1);
  line_ = expression.line;
  return without_level(expression, scope);
}

Value Renderer::without_level(const Expression& expression, const Scope& scope) {
  const auto part = [&](std::size_t i) {
    return expression.parts[i] ? evaluate(*expression.parts[i], scope) : Value(None{});
  };
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.constant;
    case ExpressionKind::kName:
      return name(expression, scope);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
    case ExpressionKind::kDict:
      return container(expression, scope);
    case ExpressionKind::kUnary:
    case ExpressionKind::kBinary:
      return operation(expression, scope);
    case ExpressionKind::kCompare:
      return comparison(expression, scope);
    case ExpressionKind::kConcat:
      return concatenation(expression, scope);
    case ExpressionKind::kConditional:
      return conditional(expression, scope);
    case ExpressionKind::kAttribute:
      return attribute_of(part(0), expression.name, meter_);
    case ExpressionKind::kItem: {
      const Value object = part(0);
      return item_of(object, part(1), meter_);
    }
    case ExpressionKind::kSlice: {
      const Value object = part(0), begin = part(1), end = part(2);
      return slice_of(object, begin, end, part(3), meter_);
    }
    case ExpressionKind::kCall:
      return call(expression, scope);
    case ExpressionKind::kCallValue:
      return call_value(part(0), expression, scope);
    case ExpressionKind::kSpread:
      return part(0);
    case ExpressionKind::kFilter:
      return filter(expression, scope);
    case ExpressionKind::kTest: {
      const Value subject = part(0);
      return passes(*expression.test, subject, arguments(expression, scope), meter_);
    }
  }
  return None{};
}

Value Renderer::name(const Expression& expression, const Scope& scope) const {
  if (const Value* value = scope.find(expression.name)) return *value;
  if (is_function(expression.name)) return Callable{expression.name};
  return Undefined{"'" + expression.name + "' is undefined"};
}

Value Renderer::operation(const Expression& expression, const Scope& scope) {
  const std::string& operation = expression.name;
  Value left = evaluate(*expression.parts.front(), scope);
  if (operation == "not") return !is_true(left);
  if (operation == "and" || operation == "or")
    return is_true(left) == (operation == "or") ? left : evaluate(*expression.parts[1], scope);
  if (expression.kind == ExpressionKind::kUnary && operation == "-") return negated(left);
  if (expression.kind == ExpressionKind::kUnary) return negated(negated(left));
  const Value right = evaluate(*expression.parts[1], scope);
  line_ = expression.line;
  return combined(operation, left, right, meter_);
}

Value Renderer::comparison(const Expression& expression, const Scope& scope) {
  Value left = evaluate(*expression.parts.front(), scope);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = evaluate(*expression.parts[i + 1], scope);
    if (!compared(expression.operators[i], left, right, meter_)) return false;
    left = std::move(right);
  }
  return true;
}

Value Renderer::concatenation(const Expression& expression, const Scope& scope) {
  std::string text;
  for (const ExpressionPtr& part : expression.parts)
    write(text, shown_text(evaluate(*part, scope), meter_));
  return text_value(std::move(text));
}

Value Renderer::conditional(const Expression& expression, const Scope& scope) {
  if (is_true(evaluate(*expression.parts[0], scope))) return evaluate(*expression.parts[1], scope);
  if (expression.parts[2]) return evaluate(*expression.parts[2], scope);
  return Undefined{"an 'if' without 'else' has no value"};
}

Value Renderer::container(const Expression& expression, const Scope& scope) {
  std::vector<Value> values;
  for (const ExpressionPtr& part : expression.parts) values.push_back(evaluate(*part, scope));
  if (expression.kind == ExpressionKind::kList) return list_value(std::move(values));
  if (expression.kind == ExpressionKind::kTuple)
    return list_value(std::move(values), ListKind::kTuple);
  std::vector<std::pair<std::string, Value>> items;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const std::string* key = text_in(values[i]);
    if (!key) fail("a dict with a key that is not a text is not supported", kUnsupportedRemedy);
    items.emplace_back(*key, std::move(values[i + 1]));
  }
  return dict_value(std::move(items));
}

Arguments Renderer::arguments(const Expression& expression, const Scope& scope) {
  Arguments made;
  for (const ExpressionPtr& argument : expression.arguments) {
    if (argument->kind == ExpressionKind::kSpread) {
      const std::vector<Value> items = items_of(evaluate(*argument->parts.front(), scope), meter_);
      made.values.insert(made.values.end(), items.begin(), items.end());
    } else {
      made.values.push_back(evaluate(*argument, scope));
    }
  }
  for (const auto& [name, argument] : expression.named)
    made.named.emplace_back(name, evaluate(*argument, scope));
  line_ = expression.line;
  return made;
}

Value Renderer::filter(const Expression& expression, const Scope& scope) {
  const Expression* subject = expression.parts.front().get();
  const Value value = subject ? evaluate(*subject, scope) : meter_.text(*block_text_);
  return filtered(*expression.filter, value, arguments(expression, scope), meter_);
}

Value Renderer::call(const Expression& expression, const Scope& scope) {
  if (!expression.parts.empty()) {
    const Value object = evaluate(*expression.parts.front(), scope);
    return call_method(object, expression.name, arguments(expression, scope), meter_);
  }
  const Value* found = scope.find(expression.name);
  if (!found && is_function(expression.name))
    return call_global(expression.name, arguments(expression, scope), meter_);
  if (!found) fail(formatted("'{}' is undefined, so it cannot be called", expression.name));
  return call_value(*found, expression, scope);
}

Value Renderer::call_value(const Value& callee, const Expression& expression, const Scope& scope) {
  const Closure* const* closure = std::get_if<const Closure*>(&callee);
  if (!closure) fail(formatted("a value of type {} cannot be called", type_name(callee)));
  Value made = call_macro(**closure, arguments(expression, scope));
  line_ = expression.line;
  return made;
}

Value Renderer::call_macro(const Closure& closure, const Arguments& arguments) {
  const Nested level(macros_, kMaxMacros);
  const Macro& macro = *closure.macro;
  const std::vector<std::string_view> parameters(macro.parameters.begin(), macro.parameters.end());
  const Bound bound(arguments, parameters, macro.name);
  Scope scope{closure.scope};
  const std::size_t first_default = parameters.size() - macro.defaults.size();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (bound.has(i)) {
      scope.set(parameters[i], bound.required(i));
    } else if (i >= first_default) {
      scope.set(parameters[i], evaluate(*macro.defaults[i - first_default], scope));
    } else {
      scope.set(parameters[i],
                Undefined{formatted("parameter '{}' was not provided", parameters[i])});
    }
  }
  std::string text;
  run(*macro.body, scope, text);
  return meter_.text(std::move(text));
}

}  // namespace sluice::data::jinja
