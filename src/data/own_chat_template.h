// Warns if the chat template beside a tokenizer.json may differ from the format in use. sluice does
// not run these templates.
#pragma once

#include <string>
#include <string_view>

#include "sluice/data.h"

namespace sluice::data {

// Returns "" if there is no template, or a published one that writes the same text as `taken`.
// Throws Error(kInput) for an unreadable file.
std::string own_template_warning(const std::string& tokenizer_file, ChatTemplate taken,
                                 bool marks_are_tokens);

// Normalizes spaces within {{ }} and {% %}, quotation marks, and surrounding white space.
std::string plain_template(std::string_view text);

std::string with_usual_variable(const std::string& plain);

}  // namespace sluice::data
