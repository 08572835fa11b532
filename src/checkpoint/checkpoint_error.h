#pragma once

#include <utility>

#include "sluice/error.h"

namespace sluice {

template <typename Call>
decltype(auto) as_checkpoint_error(Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    throw Error(ErrorKind::kCheckpoint,
                {.what = error.fact(), .where = error.where(), .remedy = error.remedy()});
  }
}

}  // namespace sluice
