// What a run that failed leaves behind for its user: the grid with an arrow at the instruction that
// failed, where its rank is one of this process, and the last instructions of every rank here.
// Thread-safety: add() may be called from the ranks' threads; text() after they have ended.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "job/local_ranks.h"
#include "sluice/parts/transport.h"
#include "sluice/program.h"
#include "sluice/simulate.h"

namespace sluice {

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
