#include "data/template/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/format.h"
#include "base/text.h"
#include "data/template/access.h"
#include "data/template/letters.h"
#include "data/template/list_filters.h"
#include "data/template/methods.h"
#include "data/template/operators.h"
#include "data/template/value_text.h"

namespace sluice::data::jinja {
namespace {

// A text with the mark of the filter 'safe' if the subject has it.
Value text_like(const Value& subject, std::string text, Meter& meter) {
  Value made = meter.text(std::move(text));
  const Text* from = std::get_if<Text>(&subject);
  std::get<Text>(made).is_safe = from && from->is_safe;
  return made;
}

Value trim_filter(const Value& subject, const Bound& bound, Meter& meter) {
  const std::string text = shown_text(subject, meter);
  std::optional<std::string> characters;
  if (!bound.is_none(0)) characters = bound.text(0);
  return text_like(subject,
                   std::string(stripped_right(stripped_left(text, characters), characters)), meter);
}

Value length_filter(const Value& subject, const Bound&, Meter& meter) {
  return length_of(subject, meter);
}

Value string_filter(const Value& subject, const Bound&, Meter& meter) {
  return text_in(subject) ? subject : meter.text(shown_text(subject, meter));
}

Value safe_filter(const Value& subject, const Bound&, Meter& meter) {
  Value made = meter.text(shown_text(subject, meter));
  std::get<Text>(made).is_safe = true;
  return made;
}

Value lower_filter(const Value& subject, const Bound&, Meter& meter) {
  return text_like(subject, lower_text(shown_text(subject, meter)), meter);
}
Value upper_filter(const Value& subject, const Bound&, Meter& meter) {
  return text_like(subject, upper_text(shown_text(subject, meter)), meter);
}
Value capitalize_filter(const Value& subject, const Bound&, Meter& meter) {
  return text_like(subject, capital_text(shown_text(subject, meter)), meter);
}

// Unlike str.title(), a word begins behind white space or one of "-({[<".
Value title_filter(const Value& subject, const Bound&, Meter& meter) {
  const std::string text = shown_text(subject, meter);
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const auto separates = [&](std::size_t i) {
      return std::string_view("-({[<").find(text[i]) != std::string_view::npos ||
             !stripped_left(std::string_view(text).substr(i), {})
                  .starts_with(std::string_view(text).substr(i, 1));
    };
    while (at < text.size() && separates(at)) ++at;
    made.append(text, begin, at - begin);
    const std::size_t word = at;
    while (at < text.size() && !separates(at)) ++at;
    made += capital_text(std::string_view(text).substr(word, at - word));
  }
  return text_like(subject, std::move(made), meter);
}

Value replace_filter(const Value& subject, const Bound& bound, Meter& meter) {
  Arguments arguments{{meter.text(shown_text(bound.required(0), meter)),
                       meter.text(shown_text(bound.required(1), meter))}};
  if (!bound.is_none(2)) arguments.values.push_back(bound.required(2));
  return call_method(meter.text(shown_text(subject, meter)), "replace", arguments, meter);
}

Value default_filter(const Value& subject, const Bound& bound, Meter&) {
  const bool is_missing = is<Undefined>(subject) || (bound.flag(1, false) && !is_true(subject));
  if (!is_missing) return subject;
  return bound.has(0) ? bound.required(0) : text_value("");
}

Value json_filter(const Value& subject, const Bound& bound, Meter& meter) {
  JsonLayout layout{.ascii = bound.flag(0, false), .sorted = bound.flag(3, false)};
  if (!bound.is_none(1)) {
    const std::string* indent = text_in(bound.required(1));
    layout.indent = indent ? *indent
                           : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(
                                             bound.integer(1, 0), 0, 1000)),
                                         ' ');
    layout.between = ",";
  }
  if (!bound.is_none(2)) {
    const List* pair = list_in(bound.required(2));
    if (!pair || pair->items.size() != 2 || !text_in(pair->items[0]) || !text_in(pair->items[1]))
      fail("'separators' of 'tojson' is not a pair of texts");
    layout.between = *text_in(pair->items[0]);
    layout.colon = *text_in(pair->items[1]);
  }
  return text_value(json_text(subject, layout, meter));
}

Value indent_filter(const Value& subject, const Bound& bound, Meter& meter) {
  const std::string* text = text_in(subject);
  if (!text || std::get<Text>(subject).is_safe)
    fail("'indent' takes a text that is not marked as safe");
  const std::string* given = bound.has(0) ? text_in(bound.required(0)) : nullptr;
  const std::string indent =
      given ? *given
            : std::string(
                  static_cast<std::size_t>(std::clamp<std::int64_t>(bound.integer(0, 4), 0, 1000)),
                  ' ');
  const Value lines = call_method(meter.text(*text + "\n"), "splitlines", {}, meter);
  std::string made = bound.flag(1, false) ? indent : "";
  bool is_first = true;
  for (const Value& item : list_in(lines)->items) {
    const std::string& line = *text_in(item);
    meter.require_size(line.size() + indent.size());
    if (!is_first) made += "\n" + (line.empty() && !bound.flag(2, false) ? "" : indent);
    made += line;
    is_first = false;
  }
  return meter.text(std::move(made));
}

void require_defined(const Value& subject) {
  if (const Undefined* undefined = std::get_if<Undefined>(&subject))
    fail(undefined->what + ", so it is no number");
}

Value int_filter(const Value& subject, const Bound& bound, Meter&) {
  require_defined(subject);
  std::int64_t integer = 0;
  double real = 0;
  const Value otherwise = bound.has(0) ? bound.required(0) : Value(std::int64_t{0});
  if (is_integer(subject, integer)) return integer;
  if (const std::string* text = text_in(subject)) {
    const std::string_view digits = stripped_right(stripped_left(*text, {}), {});
    const std::string_view unsigned_digits = digits.substr(digits.starts_with('+') ? 1 : 0);
    const char* const end = unsigned_digits.data() + unsigned_digits.size();
    const auto whole = std::from_chars(unsigned_digits.data(), end, integer);
    if (whole.ec == std::errc() && whole.ptr == end) return integer;
    const auto part = std::from_chars(unsigned_digits.data(), end, real);
    if (part.ec != std::errc() || part.ptr != end) return otherwise;
  } else if (!is_number(subject, real)) {
    return otherwise;
  }
  if (!std::isfinite(real)) return otherwise;
  if (std::fabs(real) >= 9e18) fail("an integer of more than 63 bits is not supported");
  return static_cast<std::int64_t>(real);
}

Value float_filter(const Value& subject, const Bound& bound, Meter&) {
  require_defined(subject);
  double real = 0;
  if (is_number(subject, real)) return real;
  if (const std::string* text = text_in(subject)) {
    const std::string_view digits = stripped_right(stripped_left(*text, {}), {});
    const char* const end = digits.data() + digits.size();
    const auto part = std::from_chars(digits.data(), end, real);
    if (part.ec == std::errc() && part.ptr == end) return real;
  }
  return bound.has(0) ? bound.required(0) : Value(0.0);
}

Value abs_filter(const Value& subject, const Bound&, Meter&) {
  double real = 0;
  if (!is_number(subject, real)) fail("'abs' takes a number");
  std::int64_t integer = 0;
  const Value value = is_integer(subject, integer) ? Value(integer) : subject;
  return real < 0 ? negated(value) : value;
}

const std::vector<Filter>& filters() {
  static const std::vector<Filter> all = [] {
    std::vector<Filter> made = {
        {"trim", {"chars"}, trim_filter},
        {"length", {}, length_filter},
        {"count", {}, length_filter},
        {"string", {}, string_filter},
        {"safe", {}, safe_filter},
        {"lower", {}, lower_filter},
        {"upper", {}, upper_filter},
        {"title", {}, title_filter},
        {"capitalize", {}, capitalize_filter},
        {"replace", {"old", "new", "count"}, replace_filter},
        {"default", {"default_value", "boolean"}, default_filter},
        {"d", {"default_value", "boolean"}, default_filter},
        {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, json_filter},
        {"indent", {"width", "first", "blank"}, indent_filter},
        {"int", {"default"}, int_filter},
        {"float", {"default"}, float_filter},
        {"abs", {}, abs_filter}};
    for (const Filter& filter : list_filters()) made.push_back(filter);
    return made;
  }();
  return all;
}

}  // namespace

const Filter* find_filter(std::string_view name) {
  const auto found = std::find_if(filters().begin(), filters().end(),
                                  [&](const Filter& filter) { return filter.name == name; });
  return found == filters().end() ? nullptr : &*found;
}

std::vector<std::string> filter_names() {
  std::vector<std::string> names;
  for (const Filter& filter : filters()) names.emplace_back(filter.name);
  return names;
}

Value filtered(const Filter& filter, const Value& subject, const Arguments& arguments,
               Meter& meter) {
  meter.spend(1);
  if (filter.call_freely) return filter.call_freely(subject, arguments, meter);
  return filter.call(subject, Bound(arguments, filter.parameters, filter.name), meter);
}

}  // namespace sluice::data::jinja
