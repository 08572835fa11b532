// Values of a chat template, which behave as Python's. Lists and dicts never change, because the
// sandbox of transformers forbids changing them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"

namespace sluice::data::jinja {

struct Closure;
struct Loop;
struct List;
struct Dict;
struct Namespace;
class Meter;

inline constexpr int kMaxDepth = 64;

struct Undefined {
  std::string what;  // "'x' is undefined"
};
struct None {};
struct Text {
  std::shared_ptr<const std::string> text;
  bool is_safe = false;  // marked by the filter 'safe': Python would escape what is added
};
// A method that is not called, or a function.
struct Callable {
  std::string name;
};

using Value = std::variant<Undefined, None, bool, std::int64_t, double, Text,
                           std::shared_ptr<const List>, std::shared_ptr<const Dict>,
                           std::shared_ptr<Namespace>, const Closure*, Loop*, Callable>;

// kView is what dict.items() returns, kIterator what the filter 'map' returns. Both can be looped
// over, but not indexed. An iterator can be looped over once.
enum class ListKind { kList, kTuple, kRange, kView, kIterator };

struct List {
  std::vector<Value> items;
  ListKind kind = ListKind::kList;
  int depth = 1;                  // nesting of lists and dicts
  mutable std::size_t taken = 0;  // items that were taken from an iterator
};

struct Dict {
  std::vector<std::pair<std::string, Value>> items;
  std::map<std::string, std::size_t, std::less<>> places;
  int depth = 1;
  const Value* find(std::string_view key) const {
    const auto found = places.find(key);
    return found == places.end() ? nullptr : &items[found->second].second;
  }
};

struct Namespace {
  std::map<std::string, Value, std::less<>> attributes;
};

template <typename T>
bool is(const Value& value) {
  return std::holds_alternative<T>(value);
}
inline const std::string* text_in(const Value& value) {
  const Text* text = std::get_if<Text>(&value);
  return text ? text->text.get() : nullptr;
}
inline const List* list_in(const Value& value) {
  const auto* list = std::get_if<std::shared_ptr<const List>>(&value);
  return list ? list->get() : nullptr;
}
inline const Dict* dict_in(const Value& value) {
  const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&value);
  return dict ? dict->get() : nullptr;
}
// Whether the value is a number, and its value. A bool is the number 0 or 1.
bool is_integer(const Value& value, std::int64_t& number);
bool is_number(const Value& value, double& number);

Value text_value(std::string text);
// These throw Error(kInput) for nesting beyond kMaxDepth, and for namespaces, macros and loops in a
// list or dict, which could form cycles.
Value list_value(std::vector<Value> items, ListKind kind = ListKind::kList);
// A later item replaces an earlier one with the same key.
Value dict_value(std::vector<std::pair<std::string, Value>> items);
// Whether a list, dict or namespace may hold the value.
void require_storable(const Value& value);
Value value_of(const Json& json);

// Python's type name: "str", "dict".
std::string type_name(const Value& value);
bool is_true(const Value& value);
// Items of an iterable, characters of a text, keys of a dict. Takes the items of an iterator.
std::vector<Value> items_of(const Value& value, Meter& meter);
bool equal(const Value& a, const Value& b, Meter& meter);
// Below 0, 0 or above 0. Throws Error(kInput) for types that Python does not order.
int order(const Value& a, const Value& b, Meter& meter);
bool contains(const Value& whole, const Value& part, Meter& meter);

}  // namespace sluice::data::jinja
