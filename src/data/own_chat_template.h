// Warns if the chat template beside a tokenizer.json differs from the format in use. Training uses
// the format; the template only writes a few conversations for this comparison.
#pragma once

#include <string>
#include <string_view>

#include "data/chat_template.h"
#include "data/text_tokens.h"

namespace sluice::data {

// Returns "" if there is no template, or one that writes the same text as `chat`: a published one,
// or one that writes the same for all conversations of the comparison. Throws Error(kInput) for an
// unreadable file.
std::string own_template_warning(const TextTokens& tokens, const ChatFormat& chat);

// Normalizes spaces within {{ }} and {% %}, quotation marks, and surrounding white space.
std::string plain_template(std::string_view text);

std::string with_usual_variable(const std::string& plain);

}  // namespace sluice::data
