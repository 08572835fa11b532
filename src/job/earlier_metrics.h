// What a run that goes on keeps of the metrics.jsonl that is there.
//
// Owns: which lines are kept. Does not own: the file's name, new lines (metrics.h).
// Thread-safety: pure functions, but for the files.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

struct EarlierLines {
  std::int64_t kept = 0;
  std::int64_t later = 0;    // of steps after the one that the run goes on from
  std::int64_t foreign = 0;  // torn, twice, or not of a run
};

// Writes the whole lines of the file `from` whose step is at most last_step into the new file `to`,
// on disk when this returns; steps ascend. Memory is bounded by a line. Nothing is kept where there
// is no such file. Throws Error(kUsage); `to` may then be there.
EarlierLines copy_earlier_lines(const std::string& from, const std::string& to,
                                std::int64_t last_step);

// "3 lines after step 5, 1 line that no run wrote as it is"; "" when nothing was dropped.
std::string dropped_text(const EarlierLines& lines, std::int64_t last_step);

}  // namespace sluice
