#pragma once

namespace sluice::data::jinja {

struct Macro;
struct Scope;

// A macro and the scope that defines it, whose variables the macro's body reads.
struct Closure {
  const Macro* macro;
  const Scope* scope;
  bool is_lasting;  // the scope lasts as long as the rendering, so lists may hold the macro
};

}  // namespace sluice::data::jinja
