// The chat template that lies beside a tokenizer.json: it is not read (it is a program), but where
// it may write conversations in another way than the format that is taken, a warning says so.
//
// Owns: finding it, the templates that are known to write what a format writes.
// Does not own: the formats (chat_template.h).
// Thread-safety: pure functions, but for reading files.
#pragma once

#include <string>
#include <string_view>

#include "sluice/data.h"

namespace sluice::data {

// The warning for conversations that are written in the format `taken`; "" where no template lies
// there, or one that writes the same. tokenizer_file: "" for none. marks_are_tokens: as of
// ChatFormat. Throws Error(kInput) naming a file that cannot be read.
std::string own_template_warning(const std::string& tokenizer_file, ChatTemplate taken,
                                 bool marks_are_tokens);

// A template without what changes nothing: spaces between the words within {{ }} and {% %}, the
// kind of quotation marks, white space around the whole.
std::string plain_template(std::string_view text);

// The same plain template with "message" as the variable of its loop over messages.
std::string with_usual_variable(const std::string& plain);

}  // namespace sluice::data
