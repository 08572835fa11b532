#pragma once

#include <string>
#include <string_view>

#include "data/template/node.h"

namespace sluice::data::jinja {

struct Parsed {
  Body body;
  bool has_generation = false;  // has {% generation %}
  bool reads_clock = false;     // calls strftime_now()
};

// Reads a template. Throws Error(kInput) at "name:line" for wrong syntax, and names every
// construct, function, method, filter and test that is not supported, also where it is not reached.
Parsed parse_template(std::string_view text, const std::string& name);

}  // namespace sluice::data::jinja
