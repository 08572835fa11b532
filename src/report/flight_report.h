// The flight records of a run's ranks, read together: who waits for whom, and what came first.
//
// Ranks are aligned by their pass, that is the n-th time that they run a program: all make the same
// calls in the same order. A wait is followed to the rank that owes the message or has not come to
// the collective, and from there on, until a rank is found that does not wait, or a circle.
//
// Owns: the comparison, its text and JSON. Does not own: the records (flight_record.h), files.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/flight_record.h"

namespace sluice {

enum class MismatchKind : std::uint8_t {
  kMissing,     // a rank left no record of this run: killed, or on a machine that is gone
  kProgram,     // ranks run different programs
  kChannel,     // the k-th message that one rank sends is not the k-th that the other receives
  kFailed,      // a rank failed
  kNotSent,     // a rank has not sent what another waits for, and does not wait itself
  kLost,        // a message was sent and has not arrived
  kCircle,      // ranks wait for each other
  kCollective,  // all members have come to a collective that does not end
};
std::string to_text(MismatchKind kind);  // "missing", "program", ..

struct FlightMismatch {
  MismatchKind kind = MismatchKind::kMissing;
  int rank = -1;      // to look at
  std::string text;   // one line, for people
  double waited = 0;  // the longest wait that leads there, in seconds
};

struct FlightReport {
  std::string run;
  int num_ranks = 0;
  std::vector<FlightRecord> records;       // records of the run, by rank
  std::vector<int> missing;                // ranks without a record of this run, ascending
  std::vector<FlightMismatch> mismatches;  // the first one first
  std::vector<std::string> notes;
};

// records: as read, of at least one rank. Records of another run than the one that was written last
// count as missing. Throws Error(kInput) where two are of one rank, or they disagree on the number
// of ranks of one run.
FlightReport align_flight_records(std::vector<FlightRecord> records);

// A table of the ranks, the mismatches, notes; lines ending in '\n'.
std::string describe(const FlightReport& report, int width);
// {"run", "num_ranks", "missing", "ranks": [..], "mismatch": {..} or null, "mismatches", "notes"}.
std::string to_json(const FlightReport& report);

}  // namespace sluice
