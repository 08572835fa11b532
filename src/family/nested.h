// The language model inside a vision-language model of transformers (the "whole"). Only this part
// is trained.
#pragma once

#include <set>
#include <string>

#include "base/json.h"
#include "family/config_reader.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// True for a supported vision-language model, which on text alone computes the same as its language
// model.
bool is_supported_vision_language(const Json& document);
bool is_inside_vision_language(const std::string& config_text);

// Returns the language model's configuration for its family, and other documents unchanged. Missing
// fields get transformers' default. The outer object decides whether the head is tied (in some
// models either object may tie it) and, for an unknown type, the sizes.
Json language_config(const Json& document);

// Throws Error(kInput) for settings by which transformers changes logits or loss only of a
// standalone language model.
void require_bare_head(const ConfigReader& text);

// Tensor names in a Hugging Face directory, if any. Throws Error(kInput) for an unreadable file.
std::set<std::string> stored_names(const std::string& directory);

// Renames layers and parameters to names in `stored` or, if it has none of them, to those of
// transformers. `document` is the outer config.json.
void name_as_stored(ModelSpec& model, const Json& document, const std::set<std::string>& stored);

}  // namespace sluice::detail
