#include "data/template/access.h"

#include <algorithm>

#include "base/format.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data::jinja {
namespace {

// Public methods of Python's types, also those that cannot be called here.
constexpr std::string_view kTextMethods[] = {
    "capitalize",   "casefold",    "center",    "count",      "encode",       "endswith",
    "expandtabs",   "find",        "format",    "format_map", "index",        "isalnum",
    "isalpha",      "isascii",     "isdecimal", "isdigit",    "isidentifier", "islower",
    "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",      "join",
    "ljust",        "lower",       "lstrip",    "maketrans",  "partition",    "removeprefix",
    "removesuffix", "replace",     "rfind",     "rindex",     "rjust",        "rpartition",
    "rsplit",       "rstrip",      "split",     "splitlines", "startswith",   "strip",
    "swapcase",     "title",       "translate", "upper",      "zfill"};
constexpr std::string_view kDictMethods[] = {"copy", "fromkeys", "get", "items", "keys", "values"};
constexpr std::string_view kListMethods[] = {"copy", "count", "index"};
// Methods that change a list or dict. The sandbox of transformers hides them.
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListChanges[] = {"append", "clear",  "extend",  "insert",
                                             "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kTupleMethods[] = {"count", "index"};

template <std::size_t size>
bool holds_name(const std::string_view (&names)[size], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool has_method(const Value& value, const std::string& name) {
  if (text_in(value)) return holds_name(kTextMethods, name);
  if (dict_in(value)) return holds_name(kDictMethods, name);
  const List* list = list_in(value);
  if (!list || list->kind > ListKind::kRange) return false;
  return list->kind == ListKind::kList ? holds_name(kListMethods, name)
                                       : holds_name(kTupleMethods, name);
}

bool is_hidden(const Value& value, const std::string& name) {
  const List* list = list_in(value);
  return (dict_in(value) && holds_name(kDictChanges, name)) ||
         (list && list->kind == ListKind::kList && holds_name(kListChanges, name));
}

Value loop_attribute(const Loop& loop, const std::string& name) {
  const auto index = static_cast<std::int64_t>(loop.index);
  const auto size = static_cast<std::int64_t>(loop.items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return size - index;
  if (name == "revindex0") return size - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == size;
  if (name == "length") return size;
  if (name == "depth") return std::int64_t{1};  // beyond 1 only in recursive loops
  if (name == "depth0") return std::int64_t{0};
  if (name == "previtem") {
    if (index > 0) return loop.items[loop.index - 1];
    return Undefined{"there is no previous item"};
  }
  if (name == "nextitem") {
    if (index + 1 < size) return loop.items[loop.index + 1];
    return Undefined{"there is no next item"};
  }
  if (name == "cycle" || name == "changed") return Callable{name};
  return Undefined{"'loop' has no attribute '" + name + "'"};
}

Undefined missing(const Value& value, const std::string& name) {
  return {formatted("a {} has no attribute '{}'", type_name(value), name)};
}

// Returns npos if there is no such item.
std::size_t place_in(std::int64_t index, std::int64_t size) {
  if (index < 0) index += size;
  return index < 0 || index >= size ? std::string::npos : static_cast<std::size_t>(index);
}

std::int64_t slice_bound(const Value& value, std::int64_t size, std::int64_t low, std::int64_t high,
                         std::int64_t otherwise) {
  if (is<None>(value)) return otherwise;
  std::int64_t at = 0;
  if (!is_integer(value, at)) fail("a slice has a bound that is not an integer");
  return std::clamp(at < 0 ? at + size : at, low, high);
}

}  // namespace

std::int64_t characters_in(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); });
}

std::int64_t length_of(const Value& value, Meter& meter) {
  if (is<Undefined>(value)) return 0;
  if (const std::string* text = text_in(value)) {
    meter.spend(text->size() / 16);
    return characters_in(*text);
  }
  const List* list = list_in(value);
  if (list && list->kind != ListKind::kIterator)
    return static_cast<std::int64_t>(list->items.size());
  if (const Dict* dict = dict_in(value)) return static_cast<std::int64_t>(dict->items.size());
  fail("a value of type " + type_name(value) + " has no length");
}

Value attribute_of(const Value& value, const std::string& name, Meter& meter) {
  meter.spend(1);
  if (const Undefined* undefined = std::get_if<Undefined>(&value))
    fail(formatted("{}, so it has no attribute '{}'", undefined->what, name));
  if (has_method(value, name)) return Callable{name};
  if (is_hidden(value, name)) return missing(value, name);
  if (const Dict* dict = dict_in(value)) {
    const Value* item = dict->find(name);
    return item ? *item : Value(missing(value, name));
  }
  if (const auto* space = std::get_if<std::shared_ptr<Namespace>>(&value)) {
    const auto found = (*space)->attributes.find(name);
    return found == (*space)->attributes.end() ? Value(missing(value, name)) : found->second;
  }
  if (Loop* const* loop = std::get_if<Loop*>(&value)) return loop_attribute(**loop, name);
  return missing(value, name);
}

Value item_of(const Value& value, const Value& index, Meter& meter) {
  meter.spend(1);
  if (const Undefined* undefined = std::get_if<Undefined>(&value))
    fail(undefined->what + ", so it has no items");
  if (const std::string* name = text_in(index)) {
    const Dict* dict = dict_in(value);
    const Value* item = dict ? dict->find(*name) : nullptr;
    return item ? *item : attribute_of(value, *name, meter);
  }
  std::int64_t at = 0;
  if (!is_integer(index, at)) return missing(value, type_name(index));
  if (const List* list = list_in(value); list && list->kind <= ListKind::kRange) {
    const std::size_t place = place_in(at, static_cast<std::int64_t>(list->items.size()));
    if (place != std::string::npos) return list->items[place];
  } else if (text_in(value)) {
    const std::vector<Value> characters = items_of(value, meter);
    const std::size_t place = place_in(at, static_cast<std::int64_t>(characters.size()));
    if (place != std::string::npos) return characters[place];
  }
  return missing(value, std::to_string(at));
}

Value slice_of(const Value& value, const Value& begin, const Value& end, const Value& step,
               Meter& meter) {
  const List* list = list_in(value);
  const std::string* text = text_in(value);
  if (!text && (!list || list->kind > ListKind::kRange))
    fail("a value of type " + type_name(value) + " has no slices");
  std::int64_t stride = 1;
  if (!is<None>(step) && !is_integer(step, stride)) fail("a slice's step is not an integer");
  if (stride == 0) fail("a slice's step is 0");
  const std::vector<Value> items = items_of(value, meter);
  const auto size = static_cast<std::int64_t>(items.size());
  const std::int64_t low = stride < 0 ? -1 : 0, high = stride < 0 ? size - 1 : size;
  const std::int64_t from = slice_bound(begin, size, low, high, stride < 0 ? high : low);
  const std::int64_t to = slice_bound(end, size, low, high, stride < 0 ? low : high);
  const std::int64_t jump = std::clamp(stride, -size - 1, size + 1);
  std::vector<Value> taken;
  for (std::int64_t at = from; jump < 0 ? at > to : at < to; at += jump)
    taken.push_back(items[static_cast<std::size_t>(at)]);
  if (list) return list_value(std::move(taken), list->kind);
  std::string part;
  for (const Value& character : taken) part += *text_in(character);
  Value made = meter.text(std::move(part));
  std::get<Text>(made).is_safe = std::get<Text>(value).is_safe;
  return made;
}

}  // namespace sluice::data::jinja
