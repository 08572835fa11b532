// Flight records (the last instructions of each rank, docs/failures.md) and texts that explain a
// failure or hang. All functions are thread-safe, but call PostMortem::text() after the ranks have
// ended.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "command/processes.h"
#include "engine/flight_recorder.h"
#include "plan/flight_record.h"
#include "sluice/parts/transport.h"
#include "sluice/program.h"
#include "sluice/simulate.h"

namespace sluice {

class FlightRecords {
 public:
  // `run` is a unique name, equal in all processes of the run. A recorder keeps at least one step.
  FlightRecords(const LocalRanks& ranks, const std::string& metrics_folder, std::string run,
                const Program& program);

  FlightRecorder& recorder(int rank) { return *recorders_.at(rank); }

  std::map<int, const FlightRecorder*> recorders() const;

  // Writes FOLDER/flight/rank_N.json for every local rank that has run anything. Returns the
  // folder, or "" if nothing was written. Logs errors as warnings.
  std::string write_failure(const Failure& failure) noexcept;
  void write_on_request() noexcept;

  const std::string& folder() const { return folder_; }

 private:
  bool write(const std::string& reason, const std::optional<FlightFailure>& failure);

  const std::string folder_, run_;
  std::map<int, std::unique_ptr<FlightRecorder>> recorders_;
  std::mutex writing_;
};

// Draws an arrow at the failed instruction if its rank is local, and lists the last instructions of
// every local rank.
class PostMortem {
 public:
  explicit PostMortem(const LocalRanks& ranks) : here_(ranks) {}
  // `instruction` is the index of the running instruction, or -1.
  void add(int rank, int instruction, std::string flight_record);
  // Returns "" if the failed rank is local and failed outside of its instructions.
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
