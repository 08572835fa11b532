// The report of a run: one page of HTML that needs no script and loads nothing.
//
// Owns: the page; reading a run's folder (run.json, metrics.jsonl: docs/report.md); the pictures in
// run.json as JSON and its exact inverse. Does not own: what goes into the folder
// (command/run_story.h). Thread-safety: pure functions, but for reading files.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "report/picture.h"
#include "report/run_curves.h"

namespace sluice {

// FOLDER/run.json, FOLDER/report.html.
std::string run_file_path(const std::string& folder);
std::string report_path(const std::string& folder);

struct RunRecord {
  std::string folder;
  Json facts;  // run.json
  RunCurves curves;
  std::int64_t foreign_lines = 0;  // lines of metrics.jsonl that are no steps of the run
};

// run.json as an object. Throws Error(kInput) for a file that is missing, damaged or of another
// format.
Json read_run_facts(const std::string& path);
// Adds the lines of a metrics.jsonl up to a step; there need be no file. Lines that no run wrote as
// they are, are passed over. Returns their number.
std::int64_t read_curves(const std::string& path, std::int64_t last_step, RunCurves& curves);
// Both of a folder; lines that are older than the run, which has not come to its first step, are
// not its own. Throws as read_run_facts().
RunRecord read_run(const std::string& folder);

Json picture_json(const Picture& picture);
// Throws Error(kInput) at `file`.
Picture picture_of_json(const Json& object, const std::string& file);

// other: a run beside which this one is shown, or null. Throws Error(kInput) for facts that lack
// what every run.json has.
std::string report_html(const RunRecord& run, const RunRecord* other = nullptr);

}  // namespace sluice
