// Unicode normal forms (Unicode Standard Annex 15) with the tables of `tokenizers`.
#pragma once

#include <string>
#include <string_view>

namespace sluice::data {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Precondition: valid UTF-8.
void append_normalized(std::string& text, std::string_view from, NormalForm form);

}  // namespace sluice::data
