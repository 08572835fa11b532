// The numbers of a step, for people (a line on the terminal) and for programs (metrics.jsonl).
//
// Owns: StepMetrics and both forms, whose keys and line docs/metrics.md describes. Does not own:
// how the numbers come about, the file (metrics_file.h). Thread-safety: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// The parts of a rank's step, which add up to it.
struct RankSeconds {
  double compute = 0, wait_receive = 0, wait_send = 0, reduction = 0, optimizer = 0, other = 0;
};

struct StepMetrics {
  std::int64_t step = 0, num_steps = 0;
  double loss = 0;       // mean over counted tokens, nats
  double grad_norm = 0;  // before clipping
  double lr = 0;
  std::int64_t tokens = 0;  // counted
  double step_seconds = 0;
  double bubble_fraction = 0;
  std::vector<std::int64_t> memory_bytes;  // per rank: the step's peak of tensor bytes
  std::vector<RankSeconds> rank_seconds;   // per rank
  std::optional<double> validation_loss;   // validation loss of the weights after the step
  std::vector<std::pair<std::string, std::string>> continuations;  // prompt, text by these weights
  // metrics.parameter_norms: in layer order.
  std::optional<std::vector<std::pair<std::string, double>>> parameter_norms;
  // Only on a terminal.
  bool tokens_are_bytes = false;  // adds bits per byte
  std::optional<double> seconds_left;

  double tokens_per_second() const { return static_cast<double>(tokens) / step_seconds; }
};

// 1 - (time in F, B, I, W of all ranks) / (ranks * step_seconds), at least 0.
double bubble_fraction(double compute_seconds_of_all_ranks, int num_ranks, double step_seconds);

// One JSON object, no newline. Doubles round-trip.
std::string to_json(const StepMetrics& metrics);

// Its inverse, but for num_steps and what is only on a terminal; keys that are not there stay 0.
// Nothing for what is no such object: a half-written line.
std::optional<StepMetrics> parse_metrics(std::string_view line);

// "step: 12/1000  loss: 3.2104  grad_norm: 0.9113  lr: 3.0e-04  tps: 2,449  bubble: 7.1%
//  mem: 0.52GiB  ms: 836"; mem is the largest rank's. On a terminal of `width` columns (0: none)
// also time left and bits per byte, and no more than fits: closer together, shorter numbers, and
// then without what matters least.
std::string to_line(const StepMetrics& metrics, bool color, int width = 0);

// "45s", "3m07s", "2h05m", "1d03h"
std::string duration_text(double seconds);

// Logged are the first step, every log_freq-th, and the last.
bool is_logged(std::int64_t step, std::int64_t num_steps, std::int64_t log_freq);

}  // namespace sluice
