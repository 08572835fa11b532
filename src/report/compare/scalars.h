// Numbers that runs log at their steps, such as the loss.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace sluice {

using ScalarCurve = std::map<std::int64_t, double>;  // step -> value

struct Scalars {
  // A later value of the same step replaces the earlier one, as after a resume.
  void add(const std::string& tag, std::int64_t step, double value) { curves[tag][step] = value; }

  std::map<std::string, ScalarCurve> curves;
};

// Whether the number depends on the computation alone: a loss, a perplexity, a norm of gradients or
// parameters. Times and counters do not count.
bool is_compared_scalar(const std::string& tag);

// Returns the step of decimal rounding with which the curve was written, such as 0.01 if all values
// have at most two decimals.
double written_step(const ScalarCurve& curve);

// Each throws Error(kInput) at "FILE:LINE". Read all numeric columns or members. Nested members of
// a JSON object have names such as "parameter_grad_norms/NAME".
void read_metrics_lines(const std::string& file, Scalars& scalars);
void read_csv_columns(const std::string& file, Scalars& scalars);

}  // namespace sluice
