// The language model inside a vision-language model of transformers (the "whole"). Only this part
// is trained.
#pragma once

#include <set>
#include <string>

#include "base/json.h"
#include "family/config_reader.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// Whether the document is a supported whole: on text alone it computes the same as its language
// model.
bool is_supported_vision_language(const Json& document);
bool is_inside_vision_language(const std::string& config_text);

// Returns the language model's configuration for its family, and other documents unchanged. Missing
// fields get the default of their transformers class. The outer object decides whether the head is
// tied and, for an unknown type, the sizes.
Json language_config(const Json& document);

// Throws Error(kInput) for changes to logits or loss that transformers applies only to a standalone
// language model.
void require_bare_head(const ConfigReader& text);

// Tensor names in a Hugging Face directory; none without weights. Throws Error(kInput) for an
// unreadable file.
std::set<std::string> stored_names(const std::string& directory);

// Renames layers and parameters as in the files or, if `stored` has none of them, as in
// transformers. `document` belongs to the whole.
void name_as_stored(ModelSpec& model, const Json& document, const std::set<std::string>& stored);

}  // namespace sluice::detail
