// The words in which the rows of the table are written:
//   key<&C::training, &Training::steps>("training", "steps").between(1, kMaxSteps).means("...")
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/key_table.h"

namespace sluice::detail {

struct Row : Key {
  Row& between(double min, double max) { return at_least(min).at_most(max); }
  Row& at_least(double min) {
    range.min = min;
    return *this;
  }
  Row& above(double min) {
    range.above_min = true;
    return at_least(min);
  }
  Row& at_most(double max) {
    range.max = max;
    return *this;
  }
  Row& below(double max) {
    range.below_max = true;
    return at_most(max);
  }
  Row& one_of(std::vector<std::string> allowed) {
    words = std::move(allowed);
    return *this;
  }
  Row& only(std::vector<std::string> values) {
    built = std::move(values);
    return *this;
  }
  Row& only_default() { return only({to_toml(default_value())}); }
  Row& path() {
    is_path = true;
    return *this;
  }
  Row& not_empty() {
    may_be_empty = false;
    return *this;
  }
  Row& means(std::string text) {
    meaning = std::move(text);
    return *this;
  }
};

template <auto Section, auto Member>
Row key(const char* section, const char* name) {
  using Type = std::remove_cvref_t<decltype((std::declval<RunConfig>().*Section).*Member)>;
  Row row;
  row.section = section;
  row.name = name;
  row.kinds = {kind_of(Value(Type{}))};
  row.get = [](const RunConfig& config) { return Value((config.*Section).*Member); };
  row.set = [](RunConfig& config, const Value& value) {
    (config.*Section).*Member = std::get<Type>(value);
  };
  return row;
}

// Keys that take values of two types.
Row activation_checkpoint_key();
Row stage_to_rank_key();
Row scale_grads_key();
Row resume_key();

}  // namespace sluice::detail
