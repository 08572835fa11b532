// What plan_pipeline() says of its options, in the words of a configuration: keys, and the places
// where they were given.
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "sluice/error.h"
#include "sluice/run_config.h"

namespace sluice::detail {

// The keys in place of the options that a text names.
std::string with_keys(std::string text);

// The error of the key that the option named by error.where() is, where that was given; of a split,
// all places where something that decides it was given (Key::decides_split).
Error with_places(const RunConfig& config, const Error& error);

}  // namespace sluice::detail
