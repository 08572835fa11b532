#include "data/template/list_filters.h"

#include <algorithm>

#include "base/format.h"
#include "base/text.h"
#include "data/template/access.h"
#include "data/template/letters.h"
#include "data/template/operators.h"
#include "data/template/value_text.h"

namespace sluice::data::jinja {
namespace {

Value iterator_of(std::vector<Value> items) {
  return list_value(std::move(items), ListKind::kIterator);
}

// An attribute as filters name it: "function.name", or the number of an item.
Value named_attribute(Value item, const Value& name, Meter& meter,
                      const Value& otherwise = None{}) {
  const auto or_default = [&](Value found) {
    return is<Undefined>(found) && !is<None>(otherwise) ? otherwise : std::move(found);
  };
  const std::string* path = text_in(name);
  if (!path) return or_default(item_of(item, name, meter));
  for (const std::string& part : sluice::split(*path, '.')) {
    const bool is_number =
        !part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    item = or_default(
        item_of(item, is_number ? Value(std::int64_t{std::stoi(part)}) : text_value(part), meter));
  }
  return item;
}

// Sorting and comparing without case, as most filters do.
Value without_case(const Value& value, Meter& meter) {
  return text_in(value) ? meter.text(lower_text(*text_in(value))) : value;
}

Value first_filter(const Value& subject, const Bound&, Meter& meter) {
  if (const List* list = list_in(subject); list && list->kind == ListKind::kIterator) {
    if (list->taken < list->items.size()) return list->items[list->taken++];
  } else if (const std::vector<Value> items = items_of(subject, meter); !items.empty()) {
    return items.front();
  }
  return Undefined{"No first item, sequence was empty."};
}

Value last_filter(const Value& subject, const Bound&, Meter& meter) {
  const List* list = list_in(subject);
  if (list && list->kind == ListKind::kIterator)
    fail("'last' does not take a value of type " + type_name(subject), "add the filter 'list'");
  const std::vector<Value> items = items_of(subject, meter);
  return items.empty() ? Undefined{"No last item, sequence was empty."} : items.back();
}

Value list_filter(const Value& subject, const Bound&, Meter& meter) {
  return list_value(items_of(subject, meter));
}

Value reverse_filter(const Value& subject, const Bound&, Meter& meter) {
  std::vector<Value> items = items_of(subject, meter);
  std::reverse(items.begin(), items.end());
  if (!text_in(subject)) return iterator_of(std::move(items));
  std::string text;
  for (const Value& item : items) text += *text_in(item);
  return meter.text(std::move(text));
}

Value join_filter(const Value& subject, const Bound& bound, Meter& meter) {
  const std::string between = bound.has(0) ? shown_text(bound.required(0), meter) : "";
  std::string made;
  bool is_first = true;
  for (const Value& item : items_of(subject, meter)) {
    const Value part = bound.is_none(1) ? item : named_attribute(item, bound.required(1), meter);
    const std::string text = shown_text(part, meter);
    meter.require_size(text.size() + between.size());
    if (!is_first) made += between;
    made += text;
    if (made.size() > kMaxOutputBytes) meter.require_size(made.size());
    is_first = false;
  }
  return text_value(std::move(made));
}

Value items_filter(const Value& subject, const Bound&, Meter& meter) {
  if (is<Undefined>(subject)) return iterator_of({});
  const Dict* dict = dict_in(subject);
  if (!dict) fail("'items' takes a dict, not a value of type " + type_name(subject));
  meter.spend(dict->items.size());
  std::vector<Value> items;
  for (const auto& [key, value] : dict->items)
    items.push_back(list_value({text_value(key), value}, ListKind::kTuple));
  return iterator_of(std::move(items));
}

// Sorts stably by keys[i] of items[i]. Comparing keys may fail, which std::stable_sort must not
// see halfway, so the order is that of a merge sort of our own.
std::vector<Value> sorted_by(const std::vector<Value>& items, const std::vector<Value>& keys,
                             bool reverse, Meter& meter) {
  std::vector<std::size_t> places(items.size()), merged(items.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  const auto is_before = [&](std::size_t a, std::size_t b) {
    const int sign = order(keys[a], keys[b], meter);
    return reverse ? sign > 0 : sign < 0;
  };
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    for (std::size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, items.size()),
                        end = std::min(begin + 2 * width, items.size());
      std::size_t a = begin, b = middle;
      for (std::size_t i = begin; i < end; ++i) {
        const bool takes_second = a == middle || (b < end && is_before(places[b], places[a]));
        merged[i] = takes_second ? places[b++] : places[a++];
      }
    }
    places.swap(merged);
  }
  std::vector<Value> sorted;
  for (const std::size_t place : places) sorted.push_back(items[place]);
  return sorted;
}

Value dictsort_filter(const Value& subject, const Bound& bound, Meter& meter) {
  const Dict* dict = dict_in(subject);
  if (!dict) fail("'dictsort' takes a dict, not a value of type " + type_name(subject));
  const bool has_case = bound.flag(0, false), by_value = bound.text(1, "key") == "value";
  std::vector<Value> items, keys;
  for (const auto& [key, value] : dict->items) {
    items.push_back(list_value({text_value(key), value}, ListKind::kTuple));
    const Value by = by_value ? value : text_value(key);
    keys.push_back(has_case ? by : without_case(by, meter));
  }
  return list_value(sorted_by(items, keys, bound.flag(2, false), meter));
}

Value sort_filter(const Value& subject, const Bound& bound, Meter& meter) {
  const std::vector<Value> items = items_of(subject, meter);
  std::vector<Value> keys;
  for (const Value& item : items) {
    const Value key = bound.is_none(2) ? item : named_attribute(item, bound.required(2), meter);
    keys.push_back(bound.flag(1, false) ? key : without_case(key, meter));
  }
  return list_value(sorted_by(items, keys, bound.flag(0, false), meter));
}

Value unique_filter(const Value& subject, const Bound& bound, Meter& meter) {
  std::vector<Value> seen, items;
  for (const Value& item : items_of(subject, meter)) {
    Value key = bound.is_none(1) ? item : named_attribute(item, bound.required(1), meter);
    if (!bound.flag(0, false)) key = without_case(key, meter);
    if (list_in(key) || dict_in(key)) fail("'unique' does not take lists and dicts");
    if (std::any_of(seen.begin(), seen.end(),
                    [&](const Value& other) { return equal(key, other, meter); }))
      continue;
    seen.push_back(std::move(key));
    items.push_back(item);
  }
  return iterator_of(std::move(items));
}

Value sum_filter(const Value& subject, const Bound& bound, Meter& meter) {
  Value sum = bound.has(1) ? bound.required(1) : Value(std::int64_t{0});
  for (const Value& item : items_of(subject, meter)) {
    sum = combined(
        "+", sum, bound.is_none(0) ? item : named_attribute(item, bound.required(0), meter), meter);
  }
  return sum;
}

// Jinja's 'map' and 'select' take any value that counts as false for an empty list.
std::vector<Value> items_if_any(const Value& subject, Meter& meter) {
  return is_true(subject) ? items_of(subject, meter) : std::vector<Value>();
}

Value map_filter(const Value& subject, const Arguments& arguments, Meter& meter) {
  std::vector<Value> items;
  if (arguments.values.empty()) {
    static const std::vector<std::string_view> parameters = {"attribute", "default"};
    const Bound bound(arguments, parameters, "map");
    for (const Value& item : items_if_any(subject, meter)) {
      const Value otherwise = bound.has(1) ? bound.required(1) : None{};
      items.push_back(named_attribute(item, bound.required(0), meter, otherwise));
    }
    return iterator_of(std::move(items));
  }
  const std::string* name = text_in(arguments.values.front());
  const Filter* filter = name ? find_filter(*name) : nullptr;
  if (!filter) fail("'map' takes the name of a filter", kUnsupportedRemedy);
  const Arguments rest{{arguments.values.begin() + 1, arguments.values.end()}, arguments.named};
  for (const Value& item : items_if_any(subject, meter))
    items.push_back(filtered(*filter, item, rest, meter));
  return iterator_of(std::move(items));
}

template <bool keeps, bool by_attribute>
Value select_filter(const Value& subject, const Arguments& arguments, Meter& meter) {
  constexpr std::size_t kTest = by_attribute ? 1 : 0;
  if (arguments.values.size() < kTest) fail("the name of the attribute is missing");
  const Test* test = nullptr;
  Arguments rest;
  if (arguments.values.size() > kTest) {
    const std::string* name = text_in(arguments.values[kTest]);
    test = name ? find_test(*name) : nullptr;
    if (!test) fail("'select' and 'reject' take the name of a test", kUnsupportedRemedy);
    rest = {{arguments.values.begin() + kTest + 1, arguments.values.end()}, arguments.named};
  }
  std::vector<Value> items;
  for (const Value& item : items_if_any(subject, meter)) {
    const Value part = by_attribute ? named_attribute(item, arguments.values.front(), meter) : item;
    const bool fits = test ? passes(*test, part, rest, meter) : is_true(part);
    if (fits == keeps) items.push_back(item);
  }
  return iterator_of(std::move(items));
}

}  // namespace

const std::vector<Filter>& list_filters() {
  static const std::vector<Filter> filters = {
      {"first", {}, first_filter},
      {"last", {}, last_filter},
      {"list", {}, list_filter},
      {"reverse", {}, reverse_filter},
      {"join", {"d", "attribute"}, join_filter},
      {"items", {}, items_filter},
      {"dictsort", {"case_sensitive", "by", "reverse"}, dictsort_filter},
      {"sort", {"reverse", "case_sensitive", "attribute"}, sort_filter},
      {"unique", {"case_sensitive", "attribute"}, unique_filter},
      {"sum", {"attribute", "start"}, sum_filter},
      {"map", {}, nullptr, map_filter},
      {"select", {}, nullptr, select_filter<true, false>},
      {"reject", {}, nullptr, select_filter<false, false>},
      {"selectattr", {}, nullptr, select_filter<true, true>},
      {"rejectattr", {}, nullptr, select_filter<false, true>}};
  return filters;
}

}  // namespace sluice::data::jinja
