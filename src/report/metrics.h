// The metrics of a step, as a line for the terminal and for metrics.jsonl (docs/metrics.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

struct RankSeconds {
  double compute = 0, wait_receive = 0, wait_send = 0, reduction = 0, optimizer = 0, other = 0;
};

struct StepMetrics {
  std::int64_t step = 0, num_steps = 0;
  double loss = 0;       // mean per token, in nats
  double grad_norm = 0;  // before clipping
  double lr = 0;
  std::int64_t tokens = 0;  // that count towards the loss
  double step_seconds = 0;
  double bubble_fraction = 0;
  std::vector<std::int64_t> memory_bytes;  // peak tensor bytes per rank
  std::vector<RankSeconds> rank_seconds;
  std::optional<double> validation_loss;
  std::vector<std::pair<std::string, std::string>> continuations;
  // Each parameter's name and gradient norm, in layer order.
  std::optional<std::vector<std::pair<std::string, double>>> parameter_norms;
  // The two members below appear on the terminal, but not in the file.
  bool tokens_are_bytes = false;
  std::optional<double> seconds_left;

  double tokens_per_second() const { return static_cast<double>(tokens) / step_seconds; }
};

// Returns 1 - (seconds in F, B, I, W of all ranks) / (ranks * step_seconds), but at least 0.
double bubble_fraction(double compute_seconds_of_all_ranks, int num_ranks, double step_seconds);

// Returns one JSON object without newline.
std::string to_json(const StepMetrics& metrics);

// Missing keys are 0. Returns nothing for a malformed line.
std::optional<StepMetrics> parse_metrics(std::string_view line);

// Returns "step: 12/1000 loss: 3.2104 grad_norm: 0.9113 lr: 3.0e-04 tps: 2,449 bubble: 7.1% mem:
// 0.52GiB ms: 836". mem is the largest of all ranks. `width`: columns of the terminal, or 0. A long
// line omits the least important fields.
std::string to_line(const StepMetrics& metrics, bool color, int width = 0);

// Returns "45s", "3m07s", "2h05m" or "1d03h".
std::string duration_text(double seconds);

bool is_logged(std::int64_t step, std::int64_t num_steps, std::int64_t log_freq);

}  // namespace sluice
