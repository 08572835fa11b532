// What a run that failed leaves behind for its user: the grid with an arrow at the instruction that
// failed, and the last instructions of every rank.
// Thread-safety: add() may be called from the ranks' threads; text() after they have ended.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "sluice/parts/draw.h"
#include "sluice/program.h"
#include "sluice/transport.h"

namespace sluice {

class PostMortem {
 public:
  // instruction: the one that was running, -1 if none was.
  void add(int rank, int instruction, std::string flight_record);
  // Empty when no rank failed while it ran its program.
  std::string text(const Program& program, const Failure& failure,
                   const GridOptions& options) const;

 private:
  struct Entry {
    int instruction = -1;
    std::string flight_record;
  };
  mutable std::mutex mutex_;
  std::map<int, Entry> ranks_;
};

}  // namespace sluice
