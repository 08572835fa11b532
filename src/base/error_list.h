#pragma once

#include <utility>
#include <vector>

#include "sluice/error.h"

namespace sluice {

// Several failures found together, such as all wrong keys of a configuration. what(), kind() and
// text are those of the first failure.
class ErrorList : public Error {
 public:
  // `errors` must not be empty.
  explicit ErrorList(std::vector<Error> errors)
      : Error(errors.front()), errors_(std::move(errors)) {}
  const std::vector<Error>& errors() const { return errors_; }

 private:
  std::vector<Error> errors_;
};

}  // namespace sluice
