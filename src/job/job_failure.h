#pragma once

#include <string>

#include "sluice/error.h"

namespace sluice {

struct JobFailure {
  int process = -1;
  int rank = -1;  // the rank that failed, -1 if unknown
  ErrorKind kind = ErrorKind::kPeer;
  std::string message;  // full error text, without "sluice: error: "
  // The process that prints the message, so that it appears once. The server chooses a living one.
  int teller = 0;
};

}  // namespace sluice
