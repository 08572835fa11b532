#include "sluice/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/text.h"

namespace sluice {
namespace {

constexpr const char* kPlain = "\033[0m";
constexpr const char* kGreen = "\033[32m";
constexpr const char* kYellow = "\033[33m";
constexpr const char* kBlue = "\033[34m";
constexpr const char* kMagenta = "\033[35m";
constexpr const char* kCyan = "\033[36m";

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

double bubble_fraction(double compute_seconds_of_all_ranks, int num_ranks, double step_seconds) {
  return std::max(0.0, 1.0 - compute_seconds_of_all_ranks / (num_ranks * step_seconds));
}

std::string to_json(const StepMetrics& metrics) {
  nlohmann::ordered_json object;
  object["step"] = metrics.step;
  object["loss"] = metrics.loss;
  object["grad_norm"] = metrics.grad_norm;
  object["lr"] = metrics.lr;
  object["tokens"] = metrics.tokens;
  object["step_seconds"] = metrics.step_seconds;
  object["tokens_per_second"] = metrics.tokens_per_second();
  object["bubble_fraction"] = metrics.bubble_fraction;
  object["memory_bytes"] = metrics.memory_bytes;
  if (metrics.parameter_norms) {
    nlohmann::ordered_json& norms = object["parameter_grad_norms"];
    norms = nlohmann::ordered_json::object();
    for (const auto& [name, norm] : *metrics.parameter_norms) norms[name] = norm;
  }
  return object.dump();
}

std::string to_line(const StepMetrics& metrics, bool color) {
  const std::int64_t memory =
      metrics.memory_bytes.empty()
          ? 0
          : *std::max_element(metrics.memory_bytes.begin(), metrics.memory_bytes.end());
  std::string line;
  auto field = [&](const char* name, const std::string& value, const char* paint) {
    line += (line.empty() ? "" : "  ") + std::string(name) + ": ";
    line += color ? paint + value + kPlain : value;
  };
  field("step", std::to_string(metrics.step) + "/" + std::to_string(metrics.num_steps), kCyan);
  field("loss", fixed(metrics.loss, 4), kGreen);
  field("grad_norm", fixed(metrics.grad_norm, 4), kYellow);
  field("lr", formatted("%.1e", metrics.lr), kPlain);
  field("tps", with_commas(std::llround(metrics.tokens_per_second())), kBlue);
  field("bubble", fixed(100.0 * metrics.bubble_fraction, 1) + "%", kMagenta);
  field("mem", fixed(static_cast<double>(memory) / (1 << 30), 2) + "GiB", kPlain);
  field("ms", std::to_string(std::llround(1000.0 * metrics.step_seconds)), kPlain);
  if (metrics.tokens_are_bytes) field("bpb", fixed(metrics.loss / std::numbers::ln2, 4), kGreen);
  if (metrics.seconds_left) field("eta", duration_text(*metrics.seconds_left), kPlain);
  return line;
}

std::string duration_text(double seconds) {
  const long long total = std::llround(std::max(0.0, seconds));
  const long long days = total / 86400, hours = total / 3600, minutes = total / 60;
  char text[64];
  if (days > 0) {
    std::snprintf(text, sizeof text, "%lldd%02lldh", days, hours % 24);
  } else if (hours > 0) {
    std::snprintf(text, sizeof text, "%lldh%02lldm", hours, minutes % 60);
  } else if (minutes > 0) {
    std::snprintf(text, sizeof text, "%lldm%02llds", minutes, total % 60);
  } else {
    std::snprintf(text, sizeof text, "%llds", total);
  }
  return text;
}

bool is_logged(std::int64_t step, std::int64_t num_steps, std::int64_t log_freq) {
  return step == 1 || step == num_steps || step % log_freq == 0;
}

void TimeLeft::add_step(double seconds) {
  (steps_ == 0 ? first_ : rest_) += seconds;
  ++steps_;
}

std::optional<double> TimeLeft::after(std::int64_t step, std::int64_t num_steps) const {
  if (steps_ == 0) return std::nullopt;
  const double mean = steps_ == 1 ? first_ : rest_ / static_cast<double>(steps_ - 1);
  return mean * static_cast<double>(num_steps - step);
}

}  // namespace sluice
