// The syntax tree of a chat template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/template/value.h"

namespace sluice::data::jinja {

struct Filter;
struct Test;
struct Method;

enum class ExpressionKind {
  kConstant,
  kName,
  kList,
  kTuple,
  kDict,         // parts: key, value, key, value, ..
  kUnary,        // name: "-", "+" or "not"
  kBinary,       // name: the operator
  kCompare,      // parts: operands; operators between them
  kConcat,       // a ~ b ~ c
  kConditional,  // parts: condition, value, other value or null
  kAttribute,    // parts: object; name
  kItem,         // parts: object, index
  kSlice,        // parts: object, begin, end, step; the last three may be null
  kCall,         // name: a function or, if parts has an object, its method
  kCallValue,    // parts: a macro in a list or dict
  kSpread,       // "*list" among the arguments of a call
  kFilter,
  kTest
};

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  ExpressionKind kind;
  int line = 0;
  std::string name = {};
  Value constant = {};
  std::vector<ExpressionPtr> parts = {};      // of a filter or test, its subject
  std::vector<ExpressionPtr> arguments = {};  // of a call, a filter or a test
  std::vector<std::pair<std::string, ExpressionPtr>> named = {};
  std::vector<std::string> operators = {};
  const Filter* filter = nullptr;
  const Test* test = nullptr;
};

enum class StatementKind {
  kText,
  kOutput,
  kIf,  // branches: (condition, body); a null condition is always true
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kGeneration,
  kBreak,
  kContinue
};

struct Statement;
using Body = std::vector<Statement>;

struct Macro {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  std::unique_ptr<Body> body;
  int line = 0;
};

// Names that a loop or an assignment sets. `attribute` is that of a namespace.
struct Target {
  std::vector<std::string> names;
  std::string attribute = {};
  bool is_tuple = false;
};

struct Branch {
  ExpressionPtr condition;
  std::unique_ptr<Body> body;
};

struct Statement {
  StatementKind kind;
  int line = 0;
  std::string text = {};
  ExpressionPtr value = {};      // of an output, a loop or an assignment
  ExpressionPtr condition = {};  // of a loop: which items it takes
  Target target = {};
  std::vector<Branch> branches = {};  // of a loop: body, and the body without any item
  std::unique_ptr<Macro> macro = {};
};

}  // namespace sluice::data::jinja
