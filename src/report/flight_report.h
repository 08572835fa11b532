// Compares the flight records of all ranks, to find the rank that caused a hang. Only ranks in the
// same pass (n-th program run) are comparable. Follows waits from rank to rank until it finds a
// rank that does not wait, or a cycle.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/flight_record.h"

namespace sluice {

enum class MismatchKind : std::uint8_t {
  kMissing,  // no record: the rank was killed or its machine is gone
  kProgram,  // ranks run different programs
  kChannel,  // a channel's k-th send does not match its k-th receive
  kFailed,
  kNotSent,     // the rank has not sent, although it does not wait
  kLost,        // a message was sent but has not arrived
  kCircle,      // ranks wait for each other in a cycle
  kCollective,  // a collective hangs although all its ranks have arrived
};
std::string to_text(MismatchKind kind);

struct FlightMismatch {
  MismatchKind kind = MismatchKind::kMissing;
  int rank = -1;  // rank that caused the hang
  std::string text;
  double waited = 0;  // longest wait that this rank causes, in seconds
};

struct FlightReport {
  std::string run;
  int num_ranks = 0;
  std::vector<FlightRecord> records;  // by rank
  std::vector<int> missing;
  std::vector<FlightMismatch> mismatches;  // most important first
  std::vector<std::string> notes;
};

// Needs at least one record. Ignores records of older runs. Throws Error(kInput) if records
// contradict each other.
FlightReport align_flight_records(std::vector<FlightRecord> records);

std::string describe(const FlightReport& report, int width);
std::string to_json(const FlightReport& report);

}  // namespace sluice
