// Flight records and texts that explain why a run failed or hangs. Records are written to
// FOLDER/flight/rank_N.json after a failure and on SIGUSR2. docs/failures.md describes them. All
// functions are thread-safe, but call PostMortem::text() only after the ranks have ended.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "command/processes.h"
#include "engine/flight_recorder.h"
#include "report/flight_record.h"
#include "sluice/parts/transport.h"
#include "sluice/program.h"
#include "sluice/simulate.h"

namespace sluice {

class FlightRecords {
 public:
  // Records go to metrics_folder/flight. `run` is the same in all processes of the run and unique
  // to it. A recorder keeps at least one step's instructions.
  FlightRecords(const LocalRanks& ranks, const std::string& metrics_folder, std::string run,
                const Program& program);

  // Observes all steps and evaluations of the rank, which must run in this process.
  FlightRecorder& recorder(int rank) { return *recorders_.at(rank); }

  std::map<int, const FlightRecorder*> recorders() const;

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

// Text for the user of a failed run: a grid with an arrow at the failed instruction, if its rank is
// local, and the last instructions of every local rank.
class PostMortem {
 public:
  explicit PostMortem(const LocalRanks& ranks) : here_(ranks) {}
  // `instruction` was running, or is -1.
  void add(int rank, int instruction, std::string flight_record);
  // Empty if no local rank was running its program, or if the failed rank is local and was not.
  std::string text(const Program& program, const Failure& failure,
                   const GridOptions& options) const;

 private:
  struct Entry {
    int instruction = -1;
    std::string flight_record;
  };
  const LocalRanks here_;
  mutable std::mutex mutex_;
  std::map<int, Entry> ranks_;
};

}  // namespace sluice
