// The end of a run of several processes: the first failure of any of them.
// Thread-safety: values.
#pragma once

#include <string>

#include "sluice/error.h"

namespace sluice {

struct JobFailure {
  int process = -1;  // the process that failed
  int rank = -1;     // rank of the run, if one rank is to blame; else -1
  ErrorKind kind = ErrorKind::kPeer;
  std::string message;  // the whole line, without "sluice: error: "
  // The living process that is to tell the user: of several lines that say the same, one is
  // printed. Filled in by the server.
  int teller = 0;
};

}  // namespace sluice
