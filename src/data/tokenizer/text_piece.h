#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/pattern.h"

namespace sluice::data {

// Valid UTF-8. The first `at_start` bytes come from the first character of the whole text, before
// which some steps insert a space.
struct TextPiece {
  std::string_view text;
  std::size_t at_start = 0;

  TextPiece part(std::size_t first, std::size_t last) const {
    return {text.substr(first, last - first),
            at_start > first ? std::min(at_start - first, last - first) : 0};
  }
};

struct OwnedPiece {
  std::string text;
  std::size_t at_start = 0;

  TextPiece view() const { return {text, at_start}; }
};

template <typename Signature>
class FunctionRef;
template <typename... Arguments>
class FunctionRef<void(Arguments...)> {
 public:
  template <typename Function>
  requires(!std::is_same_v<std::remove_cv_t<Function>, FunctionRef>)
      FunctionRef(Function& function)  // NOLINT: implicit, as of std::function
      : object_(&function), call_([](void* object, Arguments... arguments) {
          (*static_cast<Function*>(object))(std::forward<Arguments>(arguments)...);
        }) {}
  void operator()(Arguments... arguments) const {
    call_(object_, std::forward<Arguments>(arguments)...);
  }

 private:
  void* object_;
  void (*call_)(void*, Arguments...);
};
using PieceSink = FunctionRef<void(TextPiece)>;

struct EncodeScratch {
  PatternScratch pattern;
  BpeScratch bpe;
  OwnedPiece normalized;
  std::string spare;
  std::size_t most_bytes = 0;  // limit of the normalized text
  // The text continues another, so no space is inserted before it.
  bool goes_on = false;
};

}  // namespace sluice::data
