#include "data/template/value.h"

#include <algorithm>

#include "data/template/closure.h"
#include "data/template/meter.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data::jinja {
namespace {

int depth_of(const Value& value) {
  if (const List* list = list_in(value)) return list->depth;
  if (const Dict* dict = dict_in(value)) return dict->depth;
  return 0;
}

int depth_above(int depth, const Value& part) {
  require_storable(part);
  depth = std::max(depth, depth_of(part) + 1);
  if (depth > kMaxDepth) fail("lists and dicts are nested more than 64 deep");
  return depth;
}

template <typename T>
int order_of(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

}  // namespace

bool is_integer(const Value& value, std::int64_t& number) {
  if (const bool* flag = std::get_if<bool>(&value)) {
    number = *flag ? 1 : 0;
  } else if (const std::int64_t* integer = std::get_if<std::int64_t>(&value)) {
    number = *integer;
  } else {
    return false;
  }
  return true;
}

bool is_number(const Value& value, double& number) {
  std::int64_t integer = 0;
  if (is_integer(value, integer)) {
    number = static_cast<double>(integer);
  } else if (const double* real = std::get_if<double>(&value)) {
    number = *real;
  } else {
    return false;
  }
  return true;
}

Value text_value(std::string text) {
  return Text{std::make_shared<const std::string>(std::move(text))};
}

void require_storable(const Value& value) {
  const Closure* const* closure = std::get_if<const Closure*>(&value);
  if (closure && (*closure)->is_lasting) return;
  if (is<std::shared_ptr<Namespace>>(value) || is<const Closure*>(value) || is<Loop*>(value))
    fail("a " + type_name(value) + " in a list, a dict or a namespace is not supported",
         kUnsupportedRemedy);
}

Value list_value(std::vector<Value> items, ListKind kind) {
  auto list = std::make_shared<List>();
  for (const Value& item : items) list->depth = depth_above(list->depth, item);
  list->items = std::move(items);
  list->kind = kind;
  return std::shared_ptr<const List>(std::move(list));
}

Value dict_value(std::vector<std::pair<std::string, Value>> items) {
  auto dict = std::make_shared<Dict>();
  for (auto& [key, value] : items) {
    dict->depth = depth_above(dict->depth, value);
    const auto [place, is_new] = dict->places.emplace(key, dict->items.size());
    if (is_new) {
      dict->items.emplace_back(std::move(key), std::move(value));
    } else {
      dict->items[place->second].second = std::move(value);
    }
  }
  return std::shared_ptr<const Dict>(std::move(dict));
}

Value value_of(const Json& json) {
  if (json.is_null()) return None{};
  if (json.is_boolean()) return json.boolean();
  if (json.is_string()) return text_value(json.text());
  if (json.is_array()) {
    std::vector<Value> items;
    for (const Json& item : json.list()) items.push_back(value_of(item));
    return list_value(std::move(items));
  }
  if (json.is_object()) {
    std::vector<std::pair<std::string, Value>> items;
    for (const Json::Member& member : json.members())
      items.emplace_back(member.key, value_of(member.value));
    return dict_value(std::move(items));
  }
  if (!json.is_number_integer()) return json.number();
  if (json.is_number_unsigned() && json.unsigned_integer() > INT64_MAX)
    fail("an integer of more than 63 bits is not supported by chat templates");
  return json.integer();
}

std::string type_name(const Value& value) {
  constexpr const char* kNames[] = {"undefined value", "None",  "bool", "int",
                                    "float",           "str",   "list", "dict",
                                    "namespace",       "macro", "loop", "method"};
  const List* list = list_in(value);
  if (list && list->kind == ListKind::kTuple) return "tuple";
  if (list && list->kind == ListKind::kRange) return "range";
  if (list && list->kind != ListKind::kList) return "iterator";
  return kNames[value.index()];
}

bool is_true(const Value& value) {
  if (is<Undefined>(value) || is<None>(value)) return false;
  if (const std::string* text = text_in(value)) return !text->empty();
  if (const List* list = list_in(value))
    return list->kind == ListKind::kIterator || !list->items.empty();
  if (const Dict* dict = dict_in(value)) return !dict->items.empty();
  double number = 1;
  is_number(value, number);
  return number != 0;
}

std::vector<Value> items_of(const Value& value, Meter& meter) {
  std::vector<Value> items;
  if (is<Undefined>(value)) return items;
  if (const List* list = list_in(value)) {
    meter.spend(list->items.size());
    if (list->kind != ListKind::kIterator) return list->items;
    items.assign(list->items.begin() + static_cast<std::ptrdiff_t>(list->taken), list->items.end());
    list->taken = list->items.size();
  } else if (const Dict* dict = dict_in(value)) {
    meter.spend(dict->items.size());
    for (const auto& [key, item] : dict->items) items.push_back(text_value(key));
  } else if (const std::string* text = text_in(value)) {
    meter.spend(4 * text->size());
    for (std::size_t at = 0; at < text->size();) {
      const std::size_t begin = at;
      next_codepoint(*text, at);
      items.push_back(text_value(text->substr(begin, at - begin)));
    }
  } else {
    fail("a value of type " + type_name(value) + " cannot be looped over");
  }
  return items;
}

bool equal(const Value& a, const Value& b, Meter& meter) {
  meter.spend(1);
  double x = 0, y = 0;
  std::int64_t i = 0, j = 0;
  if (is_integer(a, i) && is_integer(b, j)) return i == j;
  if (is_number(a, x) && is_number(b, y)) return x == y;
  if (a.index() != b.index()) return false;
  if (const std::string* text = text_in(a)) {
    meter.spend(text->size() / 16);
    return *text == *text_in(b);
  }
  if (const List* list = list_in(a)) {
    const List* other = list_in(b);
    if (list == other) return true;
    return list->kind == other->kind && list->kind <= ListKind::kRange &&
           std::equal(list->items.begin(), list->items.end(), other->items.begin(),
                      other->items.end(),
                      [&](const Value& p, const Value& q) { return equal(p, q, meter); });
  }
  if (const Dict* dict = dict_in(a)) {
    const Dict* other = dict_in(b);
    if (dict->items.size() != other->items.size()) return false;
    for (const auto& [key, value] : dict->items) {
      const Value* found = other->find(key);
      if (!found || !equal(value, *found, meter)) return false;
    }
    return true;
  }
  if (is<Undefined>(a) || is<None>(a)) return true;
  if (is<Callable>(a)) fail("methods cannot be compared", kUnsupportedRemedy);
  if (const auto* space = std::get_if<std::shared_ptr<Namespace>>(&a))
    return *space == std::get<std::shared_ptr<Namespace>>(b);
  if (is<const Closure*>(a)) return std::get<const Closure*>(a) == std::get<const Closure*>(b);
  return std::get<Loop*>(a) == std::get<Loop*>(b);
}

int order(const Value& a, const Value& b, Meter& meter) {
  meter.spend(1);
  double x = 0, y = 0;
  std::int64_t i = 0, j = 0;
  if (is_integer(a, i) && is_integer(b, j)) return order_of(i, j);
  if (is_number(a, x) && is_number(b, y)) return order_of(x, y);
  const std::string *text = text_in(a), *other_text = text_in(b);
  if (text && other_text) {
    meter.spend(std::min(text->size(), other_text->size()) / 16);
    return order_of(text->compare(*other_text), 0);
  }
  const List *list = list_in(a), *other = list_in(b);
  if (list && other && list->kind == other->kind && list->kind <= ListKind::kTuple) {
    const std::size_t size = std::min(list->items.size(), other->items.size());
    for (std::size_t at = 0; at < size; ++at) {
      if (!equal(list->items[at], other->items[at], meter))
        return order(list->items[at], other->items[at], meter);
    }
    return order_of(list->items.size(), other->items.size());
  }
  fail("values of the types " + type_name(a) + " and " + type_name(b) + " have no order");
}

bool contains(const Value& whole, const Value& part, Meter& meter) {
  if (const std::string* text = text_in(whole)) {
    const std::string* piece = text_in(part);
    if (!piece) fail("a " + type_name(part) + " cannot be in a text");
    meter.spend(text->size() / 16 + 1);
    return text->find(*piece) != std::string::npos;
  }
  if (const Dict* dict = dict_in(whole)) {
    const List* list = list_in(part);
    if (dict_in(part) || (list && list->kind == ListKind::kList))
      fail("a " + type_name(part) + " cannot be a key");
    const std::string* key = text_in(part);
    return key && dict->find(*key);
  }
  const std::vector<Value> items = items_of(whole, meter);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& item) { return equal(item, part, meter); });
}

}  // namespace sluice::data::jinja
