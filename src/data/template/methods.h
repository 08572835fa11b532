#pragma once

#include <string>
#include <vector>

#include "data/template/arguments.h"
#include "data/template/meter.h"
#include "data/template/value.h"

namespace sluice::data::jinja {

// Names of all methods that templates can call.
std::vector<std::string> method_names();

// `object.name(arguments)`. Throws Error(kInput) if the object has no such method.
Value call_method(const Value& object, const std::string& name, const Arguments& arguments,
                  Meter& meter);

}  // namespace sluice::data::jinja
