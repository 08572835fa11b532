// Compares runs with each other: which agree, and which setting separates those that do not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/compare/compare_pair.h"

namespace sluice {

struct CompareOptions {
  const FloatDtype* dtype = nullptr;  // of the arithmetic; nullptr: from run.json or the tensors
  std::optional<std::int64_t> terms, layers;
  std::optional<TensorKind> kind;  // otherwise gradients if a name contains "grad"
  std::string start;               // path of the weights before training, or ""
};

struct RunComparison {
  std::vector<ComparedRun> runs;
  Arithmetic arithmetic;
  std::string arithmetic_origin;  // "run.json"
  TensorKind kind = TensorKind::kWeights;
  std::vector<PairComparison> pairs;
  RunVerdict verdict = RunVerdict::kEqual;
  // Runs of a group differ at most by rounding. If all runs do, a group has runs with equal bits.
  std::vector<std::vector<std::string>> groups;
  // Settings that all runs have and whose value decides the group of a run.
  std::vector<std::string> axes;

  // The pair with the verdict: its bug at the earliest step, or else the earliest difference.
  // nullptr if all are equal.
  const PairComparison* decisive() const;
};

RunComparison compare_runs(std::vector<ComparedRun> runs, const CompareOptions& options);

}  // namespace sluice
