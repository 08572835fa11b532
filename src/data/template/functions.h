#pragma once

#include <string>

#include "data/template/arguments.h"
#include "data/template/meter.h"
#include "data/template/value.h"

namespace sluice::data::jinja {

// Calls a function of every template (kFunctions).
Value call_global(const std::string& name, const Arguments& arguments, Meter& meter);

}  // namespace sluice::data::jinja
