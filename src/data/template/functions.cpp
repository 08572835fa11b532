#include "data/template/functions.h"

#include <algorithm>
#include <ctime>

#include "base/format.h"
#include "data/template/value_text.h"

namespace sluice::data::jinja {
namespace {

using Pairs = std::vector<std::pair<std::string, Value>>;

// Items of a dict argument, then the named arguments.
Pairs pairs_of(const std::string& function, const Arguments& arguments) {
  Pairs pairs;
  if (!arguments.values.empty()) {
    const Dict* dict = dict_in(arguments.values.front());
    if (!dict || arguments.values.size() > 1)
      fail(formatted("'{}' takes one dict and named values", function));
    pairs = dict->items;
  }
  pairs.insert(pairs.end(), arguments.named.begin(), arguments.named.end());
  return pairs;
}

Value make_namespace(const Arguments& arguments) {
  auto made = std::make_shared<Namespace>();
  for (auto& [name, value] : pairs_of("namespace", arguments)) {
    if (name.starts_with('_')) fail(formatted("a namespace cannot have the attribute '{}'", name));
    require_storable(value);
    made->attributes.insert_or_assign(name, value);
  }
  return made;
}

Value make_range(const Arguments& arguments, Meter& meter) {
  constexpr std::int64_t kMaxRange = 100000;  // as in Jinja's sandbox
  std::vector<std::int64_t> bounds;
  for (const Value& value : arguments.values) {
    bounds.emplace_back();
    if (!is_integer(value, bounds.back())) fail("'range' takes integers");
  }
  if (bounds.empty() || bounds.size() > 3 || !arguments.named.empty())
    fail("'range' takes one to three integers");
  const std::int64_t begin = bounds.size() > 1 ? bounds[0] : 0;
  const std::int64_t end = bounds.size() > 1 ? bounds[1] : bounds[0];
  const std::int64_t step = bounds.size() > 2 ? bounds[2] : 1;
  if (step == 0) fail("the step of 'range' is 0");
  std::vector<Value> items;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end;) {
    meter.spend(1);
    if (static_cast<std::int64_t>(items.size()) == kMaxRange)
      fail(formatted("'range' has more than {} numbers", kMaxRange));
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return list_value(std::move(items), ListKind::kRange);
}

Value format_time(const Arguments& arguments, Meter& meter) {
  const std::string* format = arguments.values.size() == 1 ? text_in(arguments.values[0]) : nullptr;
  if (!format || !arguments.named.empty()) fail("'strftime_now' takes a text");
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::string made(256 + 32 * format->size(), '\0');
  meter.require_size(made.size());
  if (!format->empty())
    made.resize(std::strftime(made.data(), made.size(), format->c_str(), &parts));
  return meter.text(format->empty() ? "" : made);
}

}  // namespace

Value call_global(const std::string& name, const Arguments& arguments, Meter& meter) {
  meter.spend(1);
  if (name == "namespace") return make_namespace(arguments);
  if (name == "dict") return dict_value(pairs_of(name, arguments));
  if (name == "range") return make_range(arguments, meter);
  if (name == "strftime_now") return format_time(arguments, meter);
  static const std::vector<std::string_view> parameters = {"message"};
  const Bound bound(arguments, parameters, name);
  fail("the chat template refuses the conversation: " + shown_text(bound.required(0), meter),
       "change the conversation or `data.chat_template`");
}

}  // namespace sluice::data::jinja
