// How far a misspelt name is from another one.
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::detail {

// The letters to insert, remove or replace to make one text of the other; case is ignored.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace sluice::detail
