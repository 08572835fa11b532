// Reads the scalars of a TensorBoard event file, without TensorFlow.
#pragma once

#include <string>
#include <string_view>

#include "report/compare/scalars.h"

namespace sluice {

// Adds the scalars to `scalars`. An incomplete last record, as a running program leaves it, is
// skipped. Throws Error(kInput) at "FILE, record N" for a wrong checksum or a malformed message.
void read_events(std::string_view bytes, const std::string& file, Scalars& scalars);

}  // namespace sluice
