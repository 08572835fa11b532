#pragma once

#include "base/json.h"

namespace sluice::data::jinja {

// Messages as transformers gives them to a template: thinking under the names that templates read.
// Throws Error(kInput) if `messages` is not a list of objects.
Json chat_messages(const Json& messages);

}  // namespace sluice::data::jinja
