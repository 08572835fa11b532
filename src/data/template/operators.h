#pragma once

#include <string>

#include "data/template/meter.h"
#include "data/template/value.h"

namespace sluice::data::jinja {

// `a + b`, and so on. Throws Error(kInput) for types that Python does not combine, and for integers
// beyond 64 bits.
Value combined(const std::string& operation, const Value& a, const Value& b, Meter& meter);
// `a < b`, `a in b`, and so on.
bool compared(const std::string& operation, const Value& a, const Value& b, Meter& meter);
Value negated(const Value& value);

}  // namespace sluice::data::jinja
