// The failure of a run of several processes, in the processes that do not report it to the user:
// another one does. Thread-safety: values.
#pragma once

#include "sluice/error.h"

namespace sluice {

class ToldElsewhere : public Error {
 public:
  explicit ToldElsewhere(const Error& error) : Error(error) {}
};

}  // namespace sluice
