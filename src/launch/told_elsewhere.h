// A failure of the run that another process reports to the user.
#pragma once

#include "sluice/error.h"

namespace sluice {

class ToldElsewhere : public Error {
 public:
  explicit ToldElsewhere(const Error& error) : Error(error) {}
};

}  // namespace sluice
