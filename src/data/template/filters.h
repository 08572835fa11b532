// Filters ("value | name") and tests ("value is name").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/template/arguments.h"
#include "data/template/meter.h"
#include "data/template/value.h"

namespace sluice::data::jinja {

struct Filter {
  std::string_view name;
  std::vector<std::string_view> parameters;
  Value (*call)(const Value& subject, const Bound& arguments, Meter& meter);
  // Instead of `call`, for a filter that passes arguments on.
  Value (*call_freely)(const Value& subject, const Arguments& arguments, Meter& meter) = nullptr;
};

struct Test {
  std::string_view name;
  std::vector<std::string_view> parameters;
  bool (*call)(const Value& subject, const Bound& arguments, Meter& meter);
};

// These return nullptr if there is none.
const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);
std::vector<std::string> filter_names();
std::vector<std::string> test_names();

Value filtered(const Filter& filter, const Value& subject, const Arguments& arguments,
               Meter& meter);
bool passes(const Test& test, const Value& subject, const Arguments& arguments, Meter& meter);

}  // namespace sluice::data::jinja
