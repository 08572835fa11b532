#pragma once

#include <utility>
#include <vector>

#include "sluice/error.h"

namespace sluice {

// Several failures found together, such as all wrong keys of a configuration. As an Error it is the
// first failure.
class ErrorList : public Error {
 public:
  // Precondition: not empty.
  explicit ErrorList(std::vector<Error> errors)
      : Error(errors.front()), errors_(std::move(errors)) {}
  const std::vector<Error>& errors() const { return errors_; }

 private:
  std::vector<Error> errors_;
};

}  // namespace sluice
