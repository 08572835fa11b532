// Finds matches of {"String": ..} or {"Regex": ..} in tokenizer.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizer/json_field.h"
#include "data/tokenizer/pattern.h"

namespace sluice::data {

class TextMatcher {
 public:
  explicit TextMatcher(const JsonField& field);
  explicit TextMatcher(std::string text) : text_(std::move(text)) {}
  explicit TextMatcher(Pattern pattern) : pattern_(std::move(pattern)) {}

  template <typename Found>
  void each_match(std::string_view text, PatternScratch& scratch, Found&& found) const {
    if (pattern_) {
      pattern_->each_match(text, scratch, found);
      return;
    }
    for (std::size_t at = 0; (at = text.find(text_, at)) != std::string_view::npos;
         at += text_.size()) {
      found(PatternMatch{at, at + text_.size()});
    }
  }

 private:
  std::string text_;
  std::optional<Pattern> pattern_;
};

}  // namespace sluice::data
