// Names of what a model takes and returns, from the descriptions of its containers in an archive
// (torch.utils._pytree.treespec_dumps).
//
// Owns: names. Does not own: which value has which name.
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace sluice::detail {

// Names of the leaves in order: keys, joined by "_" where containers are in others ("past_0").
// A leaf that is the whole has the name "". Nothing where the text is not understood.
std::optional<std::vector<std::string>> output_leaf_names(std::string_view spec);
// The same of forward's inputs: positional ones have the first of `arguments`.
std::optional<std::vector<std::string>> input_leaf_names(std::string_view spec,
                                                         const std::vector<std::string>& arguments);

}  // namespace sluice::detail
