// The output for a program: the JSON objects and the text of rows, proofs and predictions, the same
// for every command.
//
// Does not own: making them, pictures (draw).
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "sluice/program.h"
#include "sluice/simulate.h"
#include "sluice/verify.h"

namespace sluice {

// Keys: docs/verify.md, docs/simulate.md.
Json verify_json(const VerifyReport& report);
Json simulation_json(const Simulation& simulation);
// The rows as lists of texts, with the sizes and the placement.
Json rows_json(const Program& program, const std::vector<std::vector<Action>>& rows);

// Several lines. `place` is what an index counts: "cell" or "instruction".
std::string verify_text(const VerifyReport& report, const std::string& place);
std::string simulation_text(const Simulation& simulation);
// "12.3% less than", "under 0.1% less than", "as much as": of a time that is no longer than
// another.
std::string comparison_text(double time, double other);

}  // namespace sluice
