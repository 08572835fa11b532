// Finds the language model inside a vision-language model of transformers. Only the language model
// is trained.
#pragma once

#include <set>
#include <string>

#include "base/json.h"
#include "family/config_reader.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// True for a supported vision-language model. Given text alone, it computes the same as its
// language model.
bool is_supported_vision_language(const Json& document);
bool is_inside_vision_language(const std::string& config_text);

// Returns the language model's configuration, with transformers' defaults for missing fields.
// Returns documents of other models unchanged. The outer object decides whether the head is tied
// (in some models either object may tie it). For an unknown type, it also decides the sizes.
Json language_config(const Json& document);

// Throws Error(kInput) for settings that transformers ignores inside a vision-language model but
// applies to logits or loss of a standalone language model.
void require_bare_head(const ConfigReader& text);

// Returns all tensor names in a Hugging Face directory, or none if it has no weights.
std::set<std::string> stored_names(const std::string& directory);

// Renames layers and parameters to the naming used in `stored`, or to transformers' naming if
// `stored` has none of them. `document` is the outer config.json.
void name_as_stored(ModelSpec& model, const Json& document, const std::set<std::string>& stored);

}  // namespace sluice::detail
