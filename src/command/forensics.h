// Records that explain why a run failed or hangs: flight records, which become files where a run
// fails and whenever SIGUSR2 comes, and the text for its user.
//
// Owns: a recorder a rank, for as long as the run has ranks; FOLDER/flight/rank_N.json, each
// replaced as a whole. Does not own: what is in them (docs/failures.md), comparing them
// (`sluice debug flight`), looking for a rank that hangs (hang_watch.h).
// Thread-safety: any thread may call anything, but PostMortem::text() after the ranks have ended.
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
  // metrics_folder: in which the folder `flight` will be. run: of all processes of the run alike,
  // and no other run's. A recorder keeps a row of the program, and more of short ones.
  FlightRecords(const LocalRanks& ranks, const std::string& metrics_folder, std::string run,
                const Program& program);

  // The observer of all that the rank runs, steps and evaluations. Precondition: the rank is here.
  FlightRecorder& recorder(int rank) { return *recorders_.at(rank); }

  std::map<int, const FlightRecorder*> recorders() const;  // by rank

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

// The text for the user of a run that failed: the grid with an arrow at the instruction that
// failed, where its rank is one of this process, and the last instructions of every rank here.
class PostMortem {
 public:
  explicit PostMortem(const LocalRanks& ranks) : here_(ranks) {}
  // instruction: the one that was running, -1 if none was.
  void add(int rank, int instruction, std::string flight_record);
  // Empty when no rank here was running its program, and when one of them failed outside of it.
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
