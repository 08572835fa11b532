// Compares two runs step by step, and judges each difference by its rounding bound.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/compare/compared_run.h"
#include "report/compare/rounding_bound.h"

namespace sluice {

enum class TensorKind { kWeights, kGradients };

struct TensorQuestion {
  TensorKind kind = TensorKind::kWeights;
  // Weights before the first step. Otherwise the first step that both runs have stands in for later
  // ones.
  const TensorTable* start = nullptr;
};

enum class RunVerdict { kEqual, kRounding, kBug };

struct Difference {
  std::int64_t step = 0;
  std::string name;      // of a tensor or scalar
  std::string evidence;  // with numbers: "0.91 and 1.82; b is 2.000 times a"
  // Relative distance, and the largest that rounding explains.
  double distance = 0, bound = 0;
  // Whether both are shares of the elements that are farther apart than rounding.
  bool is_share = false;
  double ulps = 0;  // largest, in units in the last place
  bool is_beyond = false;
};

struct PairComparison {
  std::string a, b;  // names of the runs
  RunVerdict verdict = RunVerdict::kEqual;
  std::int64_t compared = 0, different = 0, beyond = 0;    // pairs of a step and a name
  std::optional<Difference> first, first_beyond, nearest;  // nearest: largest share of its bound

  void add(Difference difference);
};

// Throws Error(kInput) if the runs have no step or no name in common.
PairComparison compare_pair(const ComparedRun& a, const ComparedRun& b,
                            const Arithmetic& arithmetic, const TensorQuestion& question,
                            TensorFiles& files);

}  // namespace sluice
