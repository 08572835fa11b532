// The flight records of the ranks of this process, and the files that they become: where a run
// fails, and whenever SIGUSR2 comes, also while a rank hangs.
//
// Owns: a recorder a rank, for as long as the run has ranks; FOLDER/flight/rank_N.json, each
// replaced as a whole. Does not own: what is in them (docs/failures.md), comparing them
// (`sluice debug flight`).
// Thread-safety: any thread may call anything.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "job/local_ranks.h"
#include "plan/flight/flight_record.h"
#include "run/flight_recorder.h"
#include "sluice/parts/transport.h"

namespace sluice {

class FlightRecords {
 public:
  // metrics_folder: in which the folder `flight` will be. run: of all processes of the run alike,
  // and no other run's.
  FlightRecords(const LocalRanks& ranks, const std::string& metrics_folder, std::string run);

  // To be told of all that the rank runs, steps and evaluations. Precondition: the rank is here.
  FlightRecorder& recorder(int rank) { return *recorders_.at(rank); }

  std::map<int, const FlightRecorder*> recorders() const;  // of all ranks here

  // On a failure of the run: one file for every rank here that has run anything. Returns the
  // folder, "" when nothing was written; what cannot be written is a warning.
  std::string write_failure(const Failure& failure) noexcept;
  // On SIGUSR2: the same, of ranks that run. Says in the log where.
  void write_on_request() noexcept;

  const std::string& folder() const { return folder_; }

 private:
  bool write(const std::string& reason, const std::optional<FlightFailure>& failure);

  const std::string folder_, run_;
  std::map<int, std::unique_ptr<FlightRecorder>> recorders_;
  std::mutex writing_;
};

// SIGUSR2 as a call, on a thread of its own, while it lives; later the signal changes nothing.
// Before the first one it is held back, by the program (begin_process). At most one at a time.
class FlightSignal {
 public:
  explicit FlightSignal(FlightRecords& records);
  ~FlightSignal();
  FlightSignal(const FlightSignal&) = delete;
  FlightSignal& operator=(const FlightSignal&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
