// A failure of the run that another process reports to the user.
#pragma once

#include "sluice/error.h"

namespace sluice {

class ReportedElsewhere : public Error {
 public:
  explicit ReportedElsewhere(const Error& error) : Error(error) {}
};

}  // namespace sluice
