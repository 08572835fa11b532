#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::detail {

// Letters to insert, remove or replace to turn one text into the other, ignoring case.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace sluice::detail
