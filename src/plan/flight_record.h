// The file rank_N.json, which records a rank's latest instructions
// (docs/failures.md#flight-records). Indices in a parsed record are valid. Entries are in the order
// of their start, and only the last may be running or waiting.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/parts/action.h"

namespace sluice {

enum class FlightState : std::uint8_t { kRunning, kWaiting, kDone, kFailed };
std::string to_text(FlightState state);

struct FlightEntry {
  std::int64_t pass = 0;  // n-th program run of this rank, from 1; evaluations count
  std::int64_t step = 0;
  int index = 0;  // in the rank's list of instructions
  std::string action;
  FlightState state = FlightState::kRunning;
  double start = 0;    // seconds since 1970
  double seconds = 0;  // from start to end, or to the time of the record
  double waited = 0;   // part of `seconds` spent waiting for ranks
  std::int64_t bytes = 0;
  int peer = -1;  // rank at the other end of a SEND or RECV
  // The RECVs and collectives for which this instruction waits, or waited when it failed.
  std::vector<std::string> waits_for;
  // The collective call in which this instruction waits, or "".
  std::string call;
  std::vector<int> missing;  // ranks that have not arrived at `call`
};
// Returns `call` and the ranks in `missing`: "..., missing rank 2".
std::string waited_call(const FlightEntry& entry);

struct RunningAction {
  std::int64_t pass = 0, step = 0;
  int index = 0;
  Action action;
};

struct FlightFailure {
  int rank = -1;
  int exit_code = 1;
  std::string message;
};

struct FlightRow {
  std::string fingerprint;  // hash of the programs of all ranks
  bool forward_only = false;
  int num_microbatches = 0;
  std::vector<std::string> instructions;
  std::vector<int> peers;  // [instruction]: rank at the other end; -1 unless SEND or RECV
  // [instruction]: the matching instruction of that rank, such as "1RECV_F0" for "0SEND_F0".
  std::vector<std::string> counterparts;
};

struct FlightRecord {
  std::string run;
  int rank = 0, num_ranks = 1;
  std::array<int, 5> coordinates = {};  // in the mesh: pp, dp_replicate, dp_shard, cp, tp
  std::vector<int> stages;
  std::string host;
  std::int64_t pid = 0;
  std::string reason;  // "failure" or "signal"
  double written = 0;  // seconds since 1970
  std::int64_t pass = 0, step = 0;
  bool in_pass = false;
  FlightRow row;
  std::vector<FlightEntry> entries;
  std::optional<FlightFailure> failure;
};

std::string flight_file_name(int rank);
std::optional<int> rank_of_flight_file(std::string_view name);

std::string flight_json(const FlightRecord& record);

inline constexpr std::size_t kMaxFlightFile = std::size_t{32} << 20;
// Both throw Error(kInput) for an invalid record.
FlightRecord parse_flight_record(std::string_view text, const std::string& file_name);
FlightRecord read_flight_record(const std::string& path);

}  // namespace sluice
