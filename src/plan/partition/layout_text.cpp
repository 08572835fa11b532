#include "plan/partition/layout_text.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/format.h"
#include "plan/partition/shares.h"

namespace sluice::detail {
namespace {

constexpr std::size_t kMaxLetters = 4 * std::size_t{kMaxLayers};
constexpr int kMaxDigits = 5;

const char* const kLetters =
    "write E (embedding), t (decoder layer), m (MTP layer), L (norm and head) and | between "
    "stages; t*3 and (tt|)*2 repeat";

// Expands "(tt|)*2" and "t*3", and drops commas, which only group.
class LayoutParser {
 public:
  explicit LayoutParser(const std::string& text) : text_(text) {}

  std::string parse() {
    std::string expanded;
    while (at_ < text_.size()) add_item(expanded, true);
    return expanded;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    refuse(formatted("{} at character {} of the layout '{}'", what, at_ + 1, text_), kLetters);
  }

  void add_item(std::string& to, bool may_open) {
    const char letter = text_[at_];
    std::string item;
    if (letter == ',') {
      ++at_;
      return;
    }
    if (letter == '(') {
      if (!may_open) fail("a '(' inside another");
      ++at_;
      while (at_ < text_.size() && text_[at_] != ')') add_item(item, false);
      if (at_ == text_.size()) fail("a ')' is missing");
      ++at_;
      if (at_ == text_.size() || text_[at_] != '*') fail("a '*' and a number are missing");
    } else if (letter == 'E' || letter == 't' || letter == 'm' || letter == 'L' || letter == '|') {
      item = letter;
      ++at_;
    } else {
      fail("an unknown character");
    }
    for (int count = take_count(); count > 0; --count) {
      to += item;
      if (to.size() > kMaxLetters) fail("too many layers");
    }
  }

  // Returns the number after '*', or 1.
  int take_count() {
    if (at_ == text_.size() || text_[at_] != '*') return 1;
    ++at_;
    int count = 0, digits = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      if (++digits > kMaxDigits) fail("too large a number");
      count = 10 * count + (text_[at_++] - '0');
    }
    if (count == 0) fail("a number above 0 is missing");
    return count;
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

std::string shortened_stage(const std::string& stage) {
  std::string text;
  for (std::size_t i = 0; i < stage.size();) {
    const std::size_t end = std::min(stage.find_first_not_of(stage[i], i), stage.size());
    const std::size_t count = end - i;
    text += count > 2 ? formatted("{}*{}", std::string(1, stage[i]), count)
                      : std::string(count, stage[i]);
    i = end;
  }
  return text;
}

}  // namespace

std::vector<std::string> expand_layout(const std::string& text) {
  std::vector<std::string> stages(1);
  for (const char letter : LayoutParser(text).parse()) {
    if (letter == '|')
      stages.emplace_back();
    else
      stages.back() += letter;
  }
  return stages;
}

std::string shorten_layout(const std::vector<std::string>& stages) {
  std::string text;
  for (std::size_t i = 0; i < stages.size();) {
    std::size_t end = i + 1;
    // The last stage has no '|' behind it, so it is never part of a group.
    while (end + 1 < stages.size() && stages[end] == stages[i]) ++end;
    const std::string stage = shortened_stage(stages[i]);
    if (end - i > 1) {
      text += formatted("({}|)*{}", stage, end - i);
    } else {
      text += stage;
      if (end < stages.size()) text += '|';
    }
    i = end;
  }
  return text;
}

}  // namespace sluice::detail
