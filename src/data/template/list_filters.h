#pragma once

#include <vector>

#include "data/template/filters.h"

namespace sluice::data::jinja {

// Filters of lists and dicts.
const std::vector<Filter>& list_filters();

}  // namespace sluice::data::jinja
