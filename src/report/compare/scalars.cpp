#include "report/compare/scalars.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/line_reader.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "report/metrics_file.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 6> kStepNames = {"step",      "global_step", "_step",
                                                        "iteration", "iter",        "steps"};

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // Excel writes it

bool is_step_name(const std::string& name) {
  return std::count(kStepNames.begin(), kStepNames.end(), to_lower(trim(name))) > 0;
}

[[noreturn]] void refuse_line(const LineReader& reader, const std::string& what,
                              const std::string& remedy) {
  throw Error(ErrorKind::kInput, {.what = what, .where = reader.where(), .remedy = remedy});
}

void add_numbers(const std::string& tag, std::int64_t step, const Json& value, Scalars& scalars) {
  if (value.is_number()) {
    scalars.add(tag, step, value.number());
  } else if (value.is_object()) {
    for (const auto& [name, each] : value.members())
      add_numbers(formatted("{}/{}", tag, name), step, each, scalars);
  }
}

std::optional<std::int64_t> step_in(const Json& object) {
  for (const std::string_view name : kStepNames) {
    const Json* const step = object.find(name);
    if (step && step->is_number_integer()) return step->integer();
  }
  return std::nullopt;
}

// Splits at commas outside of double quotes. Returns std::nullopt for an open quote.
std::optional<std::vector<std::string>> csv_cells(std::string_view line) {
  std::vector<std::string> cells(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      if (is_quoted && i + 1 < line.size() && line[i + 1] == '"') {
        cells.back() += line[++i];
      } else {
        is_quoted = !is_quoted;
      }
    } else if (line[i] == ',' && !is_quoted) {
      cells.emplace_back();
    } else if (line[i] != '\r') {
      cells.back() += line[i];
    }
  }
  if (is_quoted) return std::nullopt;
  return cells;
}

std::optional<double> csv_number(const std::string& cell) {
  const std::string_view text = trim(cell);
  double number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::int64_t csv_step(const LineReader& reader, const std::string& cell) {
  const std::optional<double> step = csv_number(cell);
  if (!step || *step != std::floor(*step) || std::abs(*step) > 9e15)
    refuse_line(reader, formatted("the step '{}' is not an integer", cell), "correct the cell");
  return static_cast<std::int64_t>(*step);
}

}  // namespace

bool is_compared_scalar(const std::string& tag) {
  const std::string name = replace_all(to_lower(tag), "-", "_");
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (has("scale") || has("second") || has("time")) return false;
  return has("loss") || has("perplexity") || has("ppl") || (has("norm") && has("grad")) ||
         has("param_norm") || has("params_norm");
}

double written_step(const ScalarCurve& curve) {
  int decimals = 0;
  for (const auto& [step, value] : curve) {
    if (!std::isfinite(value)) continue;
    // A float32 that was converted to double has its short form as a float.
    const auto narrow = static_cast<float>(value);
    std::array<char, 64> text;
    const auto [end, failed] = static_cast<double>(narrow) == value
                                   ? std::to_chars(text.data(), text.data() + text.size(), narrow,
                                                   std::chars_format::fixed)
                                   : std::to_chars(text.data(), text.data() + text.size(), value,
                                                   std::chars_format::fixed);
    if (failed != std::errc()) return 0;
    const auto point = std::find(text.data(), end, '.');
    decimals = std::max(decimals, static_cast<int>(end - point) - 1);
  }
  // Logs have two decimals or more. Fewer mean that the values are exact.
  return decimals < 2 ? 0 : std::pow(10.0, -decimals);
}

void read_metrics_lines(const std::string& file, Scalars& scalars) {
  const File source = File::open(file);
  LineReader reader(source, MetricsFile::kLongestLine);
  while (const std::optional<LineReader::Line> line = reader.next()) {
    if (line->is_too_long) refuse_line(reader, "the line is too long", "is it the right file?");
    if (trim(line->text).empty()) continue;
    const std::optional<Json> object = parse_json(line->text);
    // A running program may have written only a part of the last line.
    if (!object && !line->has_end) return;
    if (!object || !object->is_object())
      refuse_line(reader, "the line is not a JSON object", "take the line out");
    const std::optional<std::int64_t> step = step_in(*object);
    if (!step) {
      refuse_line(reader, "the object has no integer \"step\"",
                  "write the number of the step into each line");
    }
    for (const auto& [name, value] : object->members())
      if (!is_step_name(name)) add_numbers(name, *step, value, scalars);
  }
}

void read_csv_columns(const std::string& file, Scalars& scalars) {
  constexpr std::size_t kLongestCsvLine = std::size_t{1} << 20;
  const File source = File::open(file);
  LineReader reader(source, kLongestCsvLine);
  std::vector<std::string> names;
  std::size_t step_column = 0;
  while (const std::optional<std::string_view> line = reader.next_text()) {
    if (trim(*line).empty()) continue;
    const auto cells = csv_cells(*line);
    if (!cells) refuse_line(reader, "a quote is not closed", "correct the line");
    if (names.empty()) {
      for (const std::string& cell : *cells) names.emplace_back(trim(cell));
      if (names.front().starts_with(kByteOrderMark)) names.front().erase(0, kByteOrderMark.size());
      const auto step = std::find_if(names.begin(), names.end(), is_step_name);
      if (step == names.end()) {
        refuse_line(reader, "the first line names no column \"step\"",
                    "begin the file with a line of column names, such as step,loss,grad_norm");
      }
      step_column = static_cast<std::size_t>(step - names.begin());
      continue;
    }
    if (cells->size() != names.size()) {
      refuse_line(
          reader,
          formatted("the line has {}, but the first line names {}",
                    counted(static_cast<std::int64_t>(cells->size()), "cell"), names.size()),
          "correct the line");
    }
    const std::int64_t step = csv_step(reader, (*cells)[step_column]);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i == step_column || trim((*cells)[i]).empty()) continue;
      const std::optional<double> number = csv_number((*cells)[i]);
      if (number) {
        scalars.add(names[i], step, *number);
      } else if (is_compared_scalar(names[i])) {
        refuse_line(reader, formatted("'{}' in column '{}' is not a number", (*cells)[i], names[i]),
                    "correct the cell");
      }
    }
  }
}

}  // namespace sluice
