// The words in which the rows of the table are written:
//   key<&C::training, &Training::steps>("training", "steps").between(1, kMaxSteps).means("...")
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/words.h"
#include "config/key_table.h"
#include "data/data_words.h"

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

// What a member of a section is in a Value: an enumerator as its word, all else as it is.
template <typename Type>
Value to_value(const Type& member) {
  if constexpr (std::is_enum_v<Type>) {
    return word_of(words_of(Type()), member);
  } else {
    return member;
  }
}

template <typename Type>
void from_value(const Value& value, Type& member) {
  if constexpr (std::is_enum_v<Type>) {
    member = meaning_of(words_of(Type()), std::get<std::string>(value));
  } else {
    member = std::get<Type>(value);
  }
}

// An enum takes its words.
template <auto Section, auto Member>
Row key(const char* section, const char* name) {
  using Type = std::remove_cvref_t<decltype((std::declval<RunConfig>().*Section).*Member)>;
  Row row;
  row.section = section;
  row.name = name;
  row.kinds = {kind_of(to_value(Type{}))};
  if constexpr (std::is_enum_v<Type>) row.words = words_in(words_of(Type()));
  row.get = [](const RunConfig& config) { return to_value((config.*Section).*Member); };
  row.set = [](RunConfig& config, const Value& value) {
    from_value(value, (config.*Section).*Member);
  };
  return row;
}

// Keys that take values of two types.
Row activation_checkpoint_key();
Row stage_to_rank_key();
Row scale_grads_key();
Row resume_key();
// Layers that an end of the model counts for: the default is the convention's.
Row first_stage_weight_key();
Row last_stage_weight_key();

}  // namespace sluice::detail
