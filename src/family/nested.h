// The language model inside a vision-language model of transformers. Only this model is trained.
#pragma once

#include <set>
#include <string>

#include "base/json.h"
#include "family/config_reader.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// Whether the document is a supported vision-language model. On text alone it computes the same as
// its language model.
bool is_supported_vision_language(const Json& document);
bool is_inside_vision_language(const std::string& config_text);

// Returns the language model's configuration, with transformers' defaults, and other documents
// unchanged. The outer object decides whether the head is tied (in some models, either object may)
// and, for an unknown type, the sizes.
Json language_config(const Json& document);

// Throws Error(kInput) for settings that transformers applies to logits or loss only in a
// standalone language model.
void require_bare_head(const ConfigReader& text);

// Returns the tensor names in a Hugging Face directory, if any. Throws Error(kInput) for an
// unreadable file.
std::set<std::string> stored_names(const std::string& directory);

// Renames layers and parameters as in `stored` or, if it has none of them, as in transformers.
// `document` is the outer config.json.
void name_as_stored(ModelSpec& model, const Json& document, const std::set<std::string>& stored);

}  // namespace sluice::detail
