// Warns if the chat template beside a tokenizer.json may format conversations differently from the
// format in use. The template is a program, which sluice does not run.
#pragma once

#include <string>
#include <string_view>

#include "sluice/data.h"

namespace sluice::data {

// Returns "" if there is no template, or a published one that writes the same text. Otherwise
// returns a warning. `marks_are_tokens` is the value of ChatFormat::marks_are_tokens(). Throws
// Error(kInput) for an unreadable file.
std::string own_template_warning(const std::string& tokenizer_file, ChatTemplate taken,
                                 bool marks_are_tokens);

// Normalizes spaces within {{ }} and {% %}, quotation marks, and white space around the template.
std::string plain_template(std::string_view text);

// Renames the variable of the loop over messages to "message".
std::string with_usual_variable(const std::string& plain);

}  // namespace sluice::data
