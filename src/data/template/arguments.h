#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/template/meter.h"
#include "data/template/value.h"

namespace sluice::data::jinja {

// Arguments of a call.
struct Arguments {
  std::vector<Value> values;
  std::vector<std::pair<std::string, Value>> named = {};
};

// One value per parameter, in the order of the parameters. Throws Error(kInput) for too many
// arguments and unknown names. `function` names the function in messages.
class Bound {
 public:
  Bound(const Arguments& arguments, const std::vector<std::string_view>& parameters,
        std::string_view function);

  bool has(std::size_t i) const { return values_[i].has_value(); }
  const Value& required(std::size_t i) const;
  bool flag(std::size_t i, bool otherwise) const;
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  // Throws Error(kInput) if the argument is not a text.
  const std::string& text(std::size_t i) const;
  std::string text(std::size_t i, const std::string& otherwise) const;
  bool is_none(std::size_t i) const { return !has(i) || is<None>(*values_[i]); }

 private:
  std::string name_of(std::size_t i) const;

  std::vector<std::optional<Value>> values_;
  const std::vector<std::string_view>& parameters_;
  std::string_view function_;
};

}  // namespace sluice::data::jinja
