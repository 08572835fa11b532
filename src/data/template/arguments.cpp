#include "data/template/arguments.h"

#include <algorithm>

namespace sluice::data::jinja {

Bound::Bound(const Arguments& arguments, const std::vector<std::string_view>& parameters,
             std::string_view function)
    : values_(parameters.size()), parameters_(parameters), function_(function) {
  if (arguments.values.size() > parameters.size()) {
    fail(formatted("'{}' takes at most {} arguments, not {}", function, parameters.size(),
                   arguments.values.size()));
  }
  std::copy(arguments.values.begin(), arguments.values.end(), values_.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) fail(formatted("'{}' takes no argument '{}'", function, name));
    std::optional<Value>& place = values_[static_cast<std::size_t>(found - parameters.begin())];
    if (place) fail(formatted("'{}' takes '{}' once", function, name));
    place = value;
  }
}

std::string Bound::name_of(std::size_t i) const {
  return formatted("'{}' of '{}'", parameters_[i], function_);
}

const Value& Bound::required(std::size_t i) const {
  if (!values_[i]) fail("the argument " + name_of(i) + " is missing");
  return *values_[i];
}

bool Bound::flag(std::size_t i, bool otherwise) const {
  return values_[i] ? is_true(*values_[i]) : otherwise;
}

std::int64_t Bound::integer(std::size_t i, std::int64_t otherwise) const {
  std::int64_t number = otherwise;
  if (values_[i] && !is_integer(*values_[i], number))
    fail("the argument " + name_of(i) + " is not an integer");
  return number;
}

const std::string& Bound::text(std::size_t i) const {
  const std::string* text = text_in(required(i));
  if (!text) fail("the argument " + name_of(i) + " is not a text");
  return *text;
}

std::string Bound::text(std::size_t i, const std::string& otherwise) const {
  return values_[i] ? text(i) : otherwise;
}

}  // namespace sluice::data::jinja
