#pragma once

#include <string>

#include "base/json.h"
#include "plan/choose/search/search_question.h"
#include "sluice/simulate.h"

namespace sluice {

Json search_json(const SearchResult& result);
std::string search_text(const SearchResult& result, const GridOptions& options);

}  // namespace sluice
