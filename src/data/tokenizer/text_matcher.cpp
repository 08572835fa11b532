#include "data/tokenizer/text_matcher.h"

namespace sluice::data {

TextMatcher::TextMatcher(const JsonField& field) {
  const JsonField text = field["String"], regex = field["Regex"];
  if (text.is_null() == regex.is_null()) field.malformed("{\"String\": ..} or {\"Regex\": ..}");
  if (regex.is_null()) {
    text_ = text.text();
    if (text_.empty()) text.refuse("an empty text to look for");
  } else {
    pattern_.emplace(regex.text(), regex.where());
  }
}

}  // namespace sluice::data
