// A language model beside encoders: the configurations that hold one, and what its weights are
// called.
//
// Owns: which model_type is such a whole, what its text_config means, names of the parameters in
// files. Does not own: the language model itself (families.h), the rest of the weights
// (kept_tensors.h). Follows the vision-language models of transformers, of which the part that
// reads text is trained. Thread-safety: constant, and pure functions but for reading files.
#pragma once

#include <set>
#include <string>

#include "base/json.h"
#include "family/config_reader.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// One of the wholes whose text alone computes as its language model would by itself.
bool is_whole_of_known_parts(const Json& document);
// True for the config_text of a ModelSpec that is part of a whole.
bool is_part_of_a_whole(const std::string& config_text);

// Returns the language model's configuration as its family reads it, and any other document
// unchanged. A field that text_config lacks gets the default of its class in transformers. The
// outer object decides whether the head is tied, and, if its type is unknown, the sizes.
Json language_config(const Json& document);

// Throws Error(kInput) for what transformers does to logits and loss only where the language model
// is by itself. text: the language_config() of a whole.
void require_bare_head(const ConfigReader& text);

// Names of the tensors in a Hugging Face directory, by its index or the header of its one file;
// none where it has no weights. Throws Error(kInput) for what cannot be read.
std::set<std::string> stored_names(const std::string& directory);

// Gives layers and parameters the names that they have in the files, or, where `stored` has none of
// them, those that the whole has in transformers. model: as its family names it. document: the
// whole's.
void name_as_stored(ModelSpec& model, const Json& document, const std::set<std::string>& stored);

}  // namespace sluice::detail
