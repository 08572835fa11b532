// Functions to write the rows of the key table, for example:
//   key<&C::training, &Training::steps>("training", "steps").between(1, kMaxSteps).means("...")
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/words.h"
#include "config/config_words.h"
#include "config/key_table.h"
#include "data/data_words.h"
#include "plan/option_words.h"

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
  Row& path() {
    is_path = true;
    return *this;
  }
  Row& not_empty() {
    may_be_empty = false;
    return *this;
  }
  Row& decides_the_split() {
    affects_split = true;
    return *this;
  }
  Row& decides_the_data() {
    affects_data = true;
    return decides_the_numbers();
  }
  Row& decides_the_numbers() {
    affects_numbers = true;
    return *this;
  }
  Row& is_option(std::string name_of_option) {
    option = std::move(name_of_option);
    return *this;
  }
  Row& means(std::string text) {
    meaning = std::move(text);
    return *this;
  }
};

template <typename Type>
Value to_value(const Type& member) {
  if constexpr (std::is_enum_v<Type>) {
    return word_of(words_of(Type()), member);
  } else if constexpr (std::is_same_v<Type, int>) {
    return std::int64_t{member};
  } else {
    return member;
  }
}
template <typename Type>
Value to_value(const std::optional<Type>& member) {
  return to_value(member.value_or(Type()));
}

template <typename Type>
void from_value(const Value& value, Type& member) {
  if constexpr (std::is_enum_v<Type>) {
    member = meaning_of(words_of(Type()), std::get<std::string>(value));
  } else if constexpr (std::is_same_v<Type, int>) {
    member = static_cast<int>(std::get<std::int64_t>(value));
  } else {
    member = std::get<Type>(value);
  }
}
template <typename Type>
void from_value(const Value& value, std::optional<Type>& member) {
  from_value(value, member.emplace());
}

template <auto Member, auto... Rest>
auto& member_at(auto& whole) {
  if constexpr (sizeof...(Rest) == 0) {
    return whole.*Member;
  } else {
    return member_at<Rest...>(whole.*Member);
  }
}

template <auto... Path>
Row key(const char* section, const char* name) {
  using Type = std::remove_cvref_t<decltype(member_at<Path...>(std::declval<RunConfig&>()))>;
  Row row;
  row.section = section;
  row.name = name;
  row.kinds = {kind_of(to_value(Type{}))};
  if constexpr (std::is_enum_v<Type>) row.words = words_in(words_of(Type()));
  row.get = [](const RunConfig& config) { return to_value(member_at<Path...>(config)); };
  row.set = [](RunConfig& config, const Value& value) {
    from_value(value, member_at<Path...>(config));
  };
  return row;
}

// `others` are types that the key takes beside the type of its default value.
Row unbuilt_key(const char* section, const char* name, Value (*default_value)(const RunConfig&),
                const std::vector<Kind>& others = {});
Row betas_key();
Row schedule_key();
Row partition_convention_key();
Row device_memory_key();
Row lora_target_key();
Row activation_checkpoint_key();
Row train_on_key();
Row stage_to_rank_key();
Row scale_grads_key();
Row no_decay_key();
Row checkpoint_interval_key();
Row validation_interval_key();
Row resume_key();
// How many layers the end stage's extra modules count as. The split convention sets the default.
Row first_stage_weight_key();
Row last_stage_weight_key();

}  // namespace sluice::detail
