// Writes the report of a run: one HTML page without scripts (docs/report.md).
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "report/picture.h"
#include "report/run_curves.h"

namespace sluice {

std::string run_file_path(const std::string& folder);
std::string report_path(const std::string& folder);

struct RunRecord {
  std::string folder;
  Json facts;  // run.json
  RunCurves curves;
  std::int64_t foreign_lines = 0;  // invalid lines of metrics.jsonl
};

// Throws Error(kInput) for a missing or invalid file.
Json read_run_facts(const std::string& path);
// Adds lines of a metrics.jsonl up to last_step to `curves`. A missing file counts as empty.
// Returns the number of invalid lines.
std::int64_t read_curves(const std::string& path, std::int64_t last_step, RunCurves& curves);
// Ignores an earlier run's metrics.jsonl if this run has made no step yet.
RunRecord read_run(const std::string& folder);

Json picture_json(const Picture& picture);
Picture picture_of_json(const Json& object, const std::string& file);

// `other` is a run to compare with, or null. Throws Error(kInput).
std::string report_html(const RunRecord& run, const RunRecord* other = nullptr);

}  // namespace sluice
