#pragma once

#include <utility>
#include <vector>

#include "sluice/error.h"

namespace sluice {

// Several failures found together, such as all wrong keys of a configuration. what() shows the
// first.
class ErrorList : public Error {
 public:
  explicit ErrorList(std::vector<Error> errors)
      : Error(errors.front()), errors_(std::move(errors)) {}
  const std::vector<Error>& errors() const { return errors_; }

 private:
  std::vector<Error> errors_;
};

}  // namespace sluice
