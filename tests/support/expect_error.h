#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "sluice/error.h"

namespace sluice::test {

template <typename Call>
Error error_of(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::kInternal, {.what = "nothing was thrown"});
}

template <typename Call>
std::string message_of(Call&& call) {
  return error_of(std::forward<Call>(call)).what();
}

}  // namespace sluice::test
