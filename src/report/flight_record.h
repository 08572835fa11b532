// A flight record: what one rank of a run was doing when the record was written, and the file
// rank_N.json that says so (docs/failures.md#flight-records).
//
// Owns: the values, their JSON and its exact inverse. Does not own: recording
// (run/flight_recorder.h), comparing ranks (flight_report.h). No torch.
//
// Invariants of what read_flight_record() returns:
//  1. Instructions, peers and counterparts have one length, and every index is one of them.
//  2. Entries are in the order in which they started; only the last may be running or waiting.
// Thread-safety: values and pure functions.
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
std::string to_text(FlightState state);  // "running", "waiting", "done", "failed"

// One instruction that was started.
struct FlightEntry {
  std::int64_t pass = 0;  // which program run of this rank, from 1: steps and evaluations
  std::int64_t step = 0;
  int index = 0;       // in the row
  std::string action;  // as in a schedule's CSV
  FlightState state = FlightState::kRunning;
  double start = 0;        // seconds since 1970
  double seconds = 0;      // until it ended, or the record was written
  double waited = 0;       // part of these spent waiting for others
  std::int64_t bytes = 0;  // bytes of messages that it sent or that arrived for it
  int peer = -1;           // peer of a SEND or RECV: the rank at the other end
  // Instructions that it waits for, or waited for when it failed: RECVs and collectives above it in
  // the row.
  std::vector<std::string> waits_for;
  // A call to the members of a group within the instruction, in which it waits or waited when it
  // failed: "1F3 layers.7.mlp.down_proj (5) over tp: all_reduce of float32[2, 16, 64]"; else "".
  std::string call;
  std::vector<int> missing;  // ranks of the run that have not come there
};
// "1F3 layers.7.mlp.down_proj (5) over tp: all_reduce of float32[2, 16, 64], missing rank 2".
std::string waited_call(const FlightEntry& entry);

// The instruction in which a rank computes now.
struct RunningAction {
  std::int64_t pass = 0, step = 0;
  int index = 0;
  Action action;
};

struct FlightFailure {
  int rank = -1;  // the rank that failed first
  int exit_code = 1;
  std::string message;
};

// The row of the program that ran last.
struct FlightRow {
  std::string fingerprint;  // fingerprint of the programs of all ranks
  bool forward_only = false;
  int num_microbatches = 0;
  std::vector<std::string> instructions;
  std::vector<int> peers;                 // peers of SEND and RECV; else -1
  std::vector<std::string> counterparts;  // in the peer's row: "1RECV_F0" of "0SEND_F0"; else ""
};

struct FlightRecord {
  std::string run;  // the same for all ranks of a run, and no other
  int rank = 0, num_ranks = 1;
  std::array<int, 5> coordinates = {};  // pp, dp_replicate, dp_shard, cp, tp
  std::vector<int> stages;
  std::string host;
  std::int64_t pid = 0;
  std::string reason;  // "failure", "signal"
  double written = 0;  // seconds since 1970
  std::int64_t pass = 0, step = 0;
  bool in_pass = false;  // else between two
  FlightRow row;
  std::vector<FlightEntry> entries;
  std::optional<FlightFailure> failure;
};

// "rank_3.json"; the rank of such a name, nothing for any other.
std::string flight_file_name(int rank);
std::optional<int> rank_of_flight_file(std::string_view name);

// One JSON object, with a newline at its end.
std::string flight_json(const FlightRecord& record);

// Files and lists that are larger are refused.
inline constexpr std::size_t kMaxFlightFile = std::size_t{32} << 20;
// Throws Error(kInput) at file_name for what is no such record.
FlightRecord parse_flight_record(std::string_view text, const std::string& file_name);
// The same of a file.
FlightRecord read_flight_record(const std::string& path);

}  // namespace sluice
