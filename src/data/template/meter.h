#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/format.h"
#include "data/template/template_error.h"
#include "data/template/value.h"

namespace sluice::data::jinja {

inline constexpr std::uint64_t kStepsPerByte = 1000;
inline constexpr std::size_t kMaxOutputBytes = std::size_t{64} << 20;

// Counts the work of rendering one conversation, and ends it at a limit.
class Meter {
 public:
  // `bytes` of the template and the conversation.
  explicit Meter(std::uint64_t bytes) : limit_(kStepsPerByte * bytes), left_(limit_) {}

  void spend(std::uint64_t steps) {
    if (steps > left_) {
      fail(formatted("the chat template takes more than {} steps, 1,000 for each byte of template "
                     "and conversation",
                     limit_),
           "does a loop of the template run too long?");
    }
    left_ -= steps;
  }
  // A text that the template made. Every text counts one step for 4 bytes.
  Value text(std::string text) {
    require_size(text.size());
    return text_value(std::move(text));
  }
  // Call before making a text of so many bytes.
  void require_size(std::size_t bytes) {
    if (bytes > kMaxOutputBytes)
      fail("the chat template makes a text of more than 64 MiB", "shorten the conversation");
    spend(bytes / 4 + 1);
  }

 private:
  std::uint64_t limit_, left_;
};

}  // namespace sluice::data::jinja
