// A run that `sluice compare` reads: its numbers or tensors, and its layout.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "report/compare/float_values.h"
#include "report/compare/scalars.h"
#include "report/compare/stored_tensors.h"

namespace sluice {

struct ComparedRun {
  std::string name;  // "A", "B", ..
  std::string path;
  std::map<std::string, std::string> axes;  // "pp" -> "4"
  Scalars scalars;
  TensorSteps tensors;
  // From run.json, where there is one.
  const FloatDtype* arithmetic = nullptr;
  std::optional<std::int64_t> layers;

  std::string label() const;  // "A (pp=4,tp=1)", or "A (PATH)" without axes from the command line
  std::map<std::string, std::string> given_axes;
};

// `argument` is PATH or AXIS=VALUE[,AXIS=VALUE..]:PATH. Without given axes, they are the settings
// of a run.json in the path or up to two folders above. Throws Error(kUsage) for a malformed label
// and Error(kInput) for files that cannot be read.
ComparedRun read_compared_run(const std::string& argument, std::size_t index);

}  // namespace sluice
