// What a step came to, for people (a line on the terminal) and for programs (metrics.jsonl).
//
// Owns: StepMetrics, both forms, the file. Does not own: how the numbers come about (trainer.h).
// The keys and the line are described in docs/metrics.md.
// Thread-safety: values and pure functions; a MetricsFile belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/parts/observers.h"

namespace sluice {

struct StepMetrics {
  std::int64_t step = 0, num_steps = 0;
  double loss = 0;       // mean over counted tokens, nats
  double grad_norm = 0;  // before clipping
  double lr = 0;
  std::int64_t tokens = 0;  // counted
  double step_seconds = 0;
  double bubble_fraction = 0;
  std::vector<std::int64_t> memory_bytes;  // per rank: the step's peak of tensor bytes
  std::vector<StepTimes> rank_seconds;     // per rank
  std::optional<double> validation_loss;   // of the weights after the step
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

// "step: 12/1000  loss: 3.2104  grad_norm: 0.9113  lr: 3.0e-04  tps: 2,449  bubble: 7.1%
//  mem: 0.52GiB  ms: 836"; mem is the largest rank's. On a terminal of `width` columns (0: none)
// also time left and bits per byte, and no more than fits: closer together, shorter numbers, and
// then without what matters least.
std::string to_line(const StepMetrics& metrics, bool color, int width = 0);

// "45s", "3m07s", "2h05m", "1d03h"
std::string duration_text(double seconds);

// Logged are the first step, every log_freq-th, and the last.
bool is_logged(std::int64_t step, std::int64_t num_steps, std::int64_t log_freq);

// Time left from the steps so far. The first step is slower than the others and is left out as soon
// as there is another.
class TimeLeft {
 public:
  void add_step(double seconds);
  std::optional<double> after(std::int64_t step, std::int64_t num_steps) const;

 private:
  std::int64_t steps_ = 0;
  double first_ = 0, rest_ = 0;
};

// FOLDER/metrics.jsonl. A run that begins replaces that of the run before; one that goes on from a
// checkpoint keeps the lines up to there.
class MetricsFile {
 public:
  static std::string path_in(const std::string& folder);
  // That the file can be made, without leaving anything behind. Throws Error(kUsage).
  static void check(const std::string& folder);
  // Creates the folder and a new file, which takes the name in one step: with the whole lines of
  // the steps up to last_step of the file that is there, in their order, each step once (0: empty).
  // What it drops of them it warns of. Throws Error(kUsage), and leaves the old file.
  explicit MetricsFile(const std::string& folder, std::int64_t last_step = 0);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // One line, handed to the system before it returns. Throws Error(kUsage); the file then ends with
  // the line before.
  void append(const StepMetrics& metrics);
  // All lines are on disk when this returns, under the file's name. Throws Error(kUsage).
  void sync();
  // That the file still has its name. Throws Error(kUsage).
  void require_in_place() const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  bool name_is_on_disk_ = false;
};

}  // namespace sluice
