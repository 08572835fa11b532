// Unicode normal forms (Unicode Standard Annex 15), by the tables of `tokenizers`.
//
// Owns: decomposition, order of marks, composition.
// Invariant: time is bounded by the text's length, marks in a row being sorted stably.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace sluice::data {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Precondition: valid UTF-8.
void append_normalized(std::string& text, std::string_view from, NormalForm form);

}  // namespace sluice::data
