#include "report/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numbers>

#include "base/format.h"
#include "base/json.h"
#include "base/strict_json.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr const char* kPlain = "\033[0m";
constexpr const char* kGreen = "\033[32m";
constexpr const char* kYellow = "\033[33m";
constexpr const char* kBlue = "\033[34m";
constexpr const char* kMagenta = "\033[35m";
constexpr const char* kCyan = "\033[36m";
constexpr int kWideGap = 2;

std::string printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// If the line is too long, fields with the largest `least_needed` are omitted first.
struct Field {
  const char* name;
  std::string value, shorter;
  const char* paint;
  int least_needed;
};

std::string memory_text(const std::vector<std::int64_t>& bytes_of_ranks) {
  const std::int64_t bytes =
      bytes_of_ranks.empty() ? 0 : *std::max_element(bytes_of_ranks.begin(), bytes_of_ranks.end());
  const std::string gib = fixed(static_cast<double>(bytes) / (1 << 30), 2);
  return gib == "0.00" ? human_bytes(bytes) : gib + "GiB";
}

std::vector<Field> fields_of(const StepMetrics& metrics, bool on_terminal) {
  const std::string step = formatted("{}/{}", metrics.step, metrics.num_steps);
  const std::string tps = with_commas(std::llround(metrics.tokens_per_second()));
  const std::string ms = std::to_string(std::llround(1000.0 * metrics.step_seconds));
  std::vector<Field> fields = {
      {"step", step, "", kCyan, 0},
      {"loss", fixed(metrics.loss, 4), "", kGreen, 1},
      {"grad_norm", fixed(metrics.grad_norm, 4), printed("%.3g", metrics.grad_norm), kYellow, 2},
      {"lr", printed("%.1e", metrics.lr), "", kPlain, 3},
      {"tps", tps, "", kBlue, 4},
      {"bubble", fixed(100.0 * metrics.bubble_fraction, 1) + "%", "", kMagenta, 6},
      {"mem", memory_text(metrics.memory_bytes), "", kPlain, 7},
      // Omitted first, because it follows from tps.
      {"ms", ms, "", kPlain, 8}};
  if (metrics.validation_loss)
    fields.push_back({"val_loss", fixed(*metrics.validation_loss, 4), "", kGreen, 1});
  if (on_terminal && metrics.seconds_left)
    fields.push_back({"eta", duration_text(*metrics.seconds_left), "", kPlain, 5});
  if (on_terminal && metrics.tokens_are_bytes)
    fields.push_back({"bpb", fixed(metrics.loss / std::numbers::ln2, 4), "", kGreen, 9});
  return fields;
}

int length_of(const std::vector<Field>& fields, int gap) {
  std::size_t length = 0;
  for (const Field& field : fields)
    length += std::strlen(field.name) + 2 + field.value.size() + static_cast<std::size_t>(gap);
  return static_cast<int>(length) - gap;
}

std::string join_fields(const std::vector<Field>& fields, int gap, bool color) {
  std::string line;
  for (const Field& field : fields) {
    if (!line.empty()) line.append(static_cast<std::size_t>(gap), ' ');
    line += std::string(field.name) + ": ";
    line += color ? field.paint + field.value + kPlain : field.value;
  }
  return line;
}

double number_or_zero(const Json& object, std::string_view key) {
  const Json& value = object.at(key);
  return value.is_number() ? value.number() : 0;
}

const Json::List& list_in(const Json& object, std::string_view key) {
  static const Json::List none;
  const Json& value = object.at(key);
  return value.is_array() ? value.list() : none;
}

}  // namespace

double bubble_fraction(double compute_seconds_of_all_ranks, int num_ranks, double step_seconds) {
  return std::max(0.0, 1.0 - compute_seconds_of_all_ranks / (num_ranks * step_seconds));
}

std::string to_json(const StepMetrics& metrics) {
  Json object;
  object["step"] = metrics.step;
  object["loss"] = metrics.loss;
  object["grad_norm"] = metrics.grad_norm;
  object["lr"] = metrics.lr;
  object["tokens"] = metrics.tokens;
  object["step_seconds"] = metrics.step_seconds;
  object["tokens_per_second"] = metrics.tokens_per_second();
  object["bubble_fraction"] = metrics.bubble_fraction;
  object["memory_bytes"] = metrics.memory_bytes;
  Json& ranks = object["rank_seconds"];
  ranks = Json::array();
  for (const RankSeconds& times : metrics.rank_seconds) {
    ranks.push_back({{"compute", times.compute},
                     {"wait_receive", times.wait_receive},
                     {"wait_send", times.wait_send},
                     {"reduction", times.reduction},
                     {"optimizer", times.optimizer},
                     {"other", times.other}});
  }
  if (metrics.validation_loss) object["validation_loss"] = *metrics.validation_loss;
  if (!metrics.continuations.empty()) {
    Json continuations = Json::array();
    for (const auto& [prompt, text] : metrics.continuations)
      continuations.push_back({{"prompt", prompt}, {"text", text}});
    object["continuations"] = std::move(continuations);
  }
  if (metrics.parameter_norms) {
    Json& norms = object["parameter_grad_norms"];
    norms = Json::object();
    for (const auto& [name, norm] : *metrics.parameter_norms) norms.add(name, norm);
  }
  return object.dump();
}

std::optional<StepMetrics> parse_metrics(std::string_view line) {
  const std::optional<Json> object = parse_json(line);
  if (!object || !object->at("step").is_number_integer() || !object->contains("loss"))
    return std::nullopt;
  StepMetrics metrics;
  metrics.step = object->at("step").integer();
  if (metrics.step < 1) return std::nullopt;
  metrics.loss = number_or_zero(*object, "loss");
  metrics.grad_norm = number_or_zero(*object, "grad_norm");
  metrics.lr = number_or_zero(*object, "lr");
  metrics.tokens = static_cast<std::int64_t>(number_or_zero(*object, "tokens"));
  metrics.step_seconds = number_or_zero(*object, "step_seconds");
  metrics.bubble_fraction = number_or_zero(*object, "bubble_fraction");
  for (const Json& bytes : list_in(*object, "memory_bytes"))
    metrics.memory_bytes.push_back(bytes.is_number() ? bytes.integer() : 0);
  for (const Json& rank : list_in(*object, "rank_seconds"))
    metrics.rank_seconds.push_back(
        {number_or_zero(rank, "compute"), number_or_zero(rank, "wait_receive"),
         number_or_zero(rank, "wait_send"), number_or_zero(rank, "reduction"),
         number_or_zero(rank, "optimizer"), number_or_zero(rank, "other")});
  if (object->at("validation_loss").is_number())
    metrics.validation_loss = object->at("validation_loss").number();
  for (const Json& each : list_in(*object, "continuations")) {
    if (each.at("prompt").is_string() && each.at("text").is_string())
      metrics.continuations.emplace_back(each.at("prompt").text(), each.at("text").text());
  }
  if (const Json& norms = object->at("parameter_grad_norms"); norms.is_object()) {
    metrics.parameter_norms.emplace();
    for (const auto& [name, norm] : norms.members())
      metrics.parameter_norms->emplace_back(name, norm.is_number() ? norm.number() : 0);
  }
  return metrics;
}

std::string to_line(const StepMetrics& metrics, bool color, int width) {
  const bool on_terminal = width > 0;
  std::vector<Field> fields = fields_of(metrics, on_terminal);
  const auto fits = [&](int gap) { return !on_terminal || length_of(fields, gap) <= width; };
  if (fits(kWideGap)) return join_fields(fields, kWideGap, color);
  for (Field& field : fields) {
    if (!field.shorter.empty()) field.value = field.shorter;
  }
  while (fields.size() > 2 && !fits(1)) {
    fields.erase(std::max_element(fields.begin(), fields.end(), [](const Field& a, const Field& b) {
      return a.least_needed < b.least_needed;
    }));
  }
  return join_fields(fields, 1, color);
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

}  // namespace sluice
