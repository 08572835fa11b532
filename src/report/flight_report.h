// Compares the flight records of all ranks, to find which rank caused a hang.
//
// Ranks are aligned by their pass, the n-th program that they run. Each wait is followed from rank
// to rank, until it ends at a rank that does not wait, or in a circle.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/flight_record.h"

namespace sluice {

enum class MismatchKind : std::uint8_t {
  kMissing,  // a rank left no record: it was killed, or its machine is gone
  kProgram,  // ranks run different programs
  kChannel,  // a channel's k-th send does not match its k-th receive
  kFailed,
  kNotSent,     // a rank has not sent a message, and does not wait itself
  kLost,        // a sent message has not arrived
  kCircle,      // ranks wait for each other
  kCollective,  // a collective hangs although all members have arrived
};
std::string to_text(MismatchKind kind);

struct FlightMismatch {
  MismatchKind kind = MismatchKind::kMissing;
  int rank = -1;      // the suspect
  std::string text;   // one line
  double waited = 0;  // longest wait that leads to it, in seconds
};

struct FlightReport {
  std::string run;
  int num_ranks = 0;
  std::vector<FlightRecord> records;       // by rank
  std::vector<int> missing;                // ranks without a record
  std::vector<FlightMismatch> mismatches;  // most important first
  std::vector<std::string> notes;
};

// Needs at least one record. Records of other runs than the newest count as missing. Throws
// Error(kInput) if two records have the same rank, or disagree on the number of ranks.
FlightReport align_flight_records(std::vector<FlightRecord> records);

// Table of ranks, mismatches and notes.
std::string describe(const FlightReport& report, int width);
// {"run", "num_ranks", "missing", "ranks": [..], "mismatch": {..} or null, "mismatches", "notes"}.
std::string to_json(const FlightReport& report);

}  // namespace sluice
