// Shows a comparison of runs as text and as JSON (docs/report.md).
#pragma once

#include <string>

#include "base/json.h"
#include "report/compare/compare_runs.h"

namespace sluice {

std::string_view to_text(RunVerdict verdict);
std::string run_comparison_text(const RunComparison& comparison);
Json run_comparison_json(const RunComparison& comparison);

}  // namespace sluice
