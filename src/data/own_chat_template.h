// Warns if a tokenizer's own chat template may differ from the chat format in use. sluice has
// built-in formats and does not run the Jinja template beside a tokenizer.json.
#pragma once

#include <string>
#include <string_view>

#include "sluice/data.h"

namespace sluice::data {

// Returns "" if there is no template, or if it is a published one that writes the same text as the
// format in use (`taken`). Throws Error(kInput) for an unreadable file.
std::string own_template_warning(const std::string& tokenizer_file, ChatTemplate taken,
                                 bool marks_are_tokens);

// Normalizes a template for comparison: spaces within {{ }} and {% %}, quotation marks, and
// surrounding white space.
std::string plain_template(std::string_view text);

std::string with_usual_variable(const std::string& plain);

}  // namespace sluice::data
