// Warns if the chat template beside a tokenizer.json, which sluice does not run, may differ from
// the format in use.
#pragma once

#include <string>
#include <string_view>

#include "sluice/data.h"

namespace sluice::data {

// Returns no warning if there is no template, or a published one that writes the same text. Throws
// Error(kInput) for an unreadable file.
std::string own_template_warning(const std::string& tokenizer_file, ChatTemplate taken,
                                 bool marks_are_tokens);

// Normalizes spaces within {{ }} and {% %}, quotation marks, and surrounding white space.
std::string plain_template(std::string_view text);

std::string with_usual_variable(const std::string& plain);

}  // namespace sluice::data
