// The words in which the rows of the table are written:
//   key<&RunConfig::training, &TrainingOptions::steps>("training",
//   "steps").at_least(1).means(".."),
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/key_table.h"

namespace sluice::detail {

struct Row : Key {
  Row& between(double min, double max) { return range = {min, max, false, false}, *this; }
  Row& at_least(double min) { return range.min = min, *this; }
  Row& above(double min) { return range.min = min, range.above_min = true, *this; }
  Row& below(double max) { return range.max = max, range.below_max = true, *this; }
  Row& one_of(std::vector<std::string> allowed) { return words = std::move(allowed), *this; }
  Row& only(std::vector<std::string> values) { return built = std::move(values), *this; }
  Row& path() { return is_path = true, *this; }
  Row& not_empty() { return may_be_empty = false, *this; }
  Row& means(std::string text) { return meaning = std::move(text), *this; }
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
