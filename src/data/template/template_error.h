#pragma once

#include <string>

#include "sluice/error.h"

namespace sluice::data::jinja {

// Throws Error(kInput) without a place. The reader and the renderer add file and line.
[[noreturn]] inline void fail(const std::string& what, const std::string& remedy = {}) {
  throw Error(ErrorKind::kInput, {.what = what, .remedy = remedy});
}

inline constexpr const char* kUnsupportedRemedy =
    "set `data.chat_template` to a template without it or to a built-in format, or write rows of "
    "input_ids and labels (docs/data.md#rows-made-elsewhere)";

}  // namespace sluice::data::jinja
