#include "report/compare/compared_run.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "report/compare/event_reader.h"
#include "report/metrics_file.h"
#include "report/run_report.h"
#include "sluice/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostEventBytes = std::size_t{1} << 30;

// Settings that cannot change a result.
constexpr std::array<std::string_view, 5> kSectionsLeftOut = {"metrics.", "checkpoint.", "comm.",
                                                              "validation.", "training.steps"};
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kShortAxes = {{
    {"parallelism.pipeline_parallel_degree", "pp"},
    {"parallelism.data_parallel_degree", "dp"},
    {"parallelism.tensor_parallel_degree", "tp"},
    {"parallelism.context_parallel_degree", "cp"},
    {"parallelism.expert_parallel_degree", "ep"},
    {"parallelism.pipeline_parallel_schedule", "schedule"},
}};

bool exists(const std::string& path) {
  std::error_code unknown;
  return fs::exists(path, unknown);
}

bool is_axis_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Splits "pp=2,tp=1:PATH". Without a label, the whole argument is the path.
std::string take_label(const std::string& argument, std::map<std::string, std::string>& axes) {
  const std::size_t colon = argument.find(':'), equals = argument.find('=');
  if (exists(argument) || colon == std::string::npos || equals > colon) return argument;
  if (!is_axis_name(std::string_view(argument).substr(0, equals))) return argument;
  for (const std::string& part : split(argument.substr(0, colon), ',')) {
    const std::size_t at = part.find('=');
    const bool is_axis = at != std::string::npos && at + 1 < part.size() &&
                         is_axis_name(std::string_view(part).substr(0, at));
    if (!is_axis || !axes.emplace(part.substr(0, at), part.substr(at + 1)).second) {
      throw Error(ErrorKind::kUsage,
                  {.what = is_axis ? formatted("the label names '{}' twice", part.substr(0, at))
                                   : formatted("'{}' of the label is not AXIS=VALUE", part),
                   .where = argument,
                   .remedy = "write such as pp=2,tp=1:PATH"});
    }
  }
  return argument.substr(colon + 1);
}

std::string plain_text(const Json& value) {
  return value.is_string() ? value.text() : value.dump();
}

void take_facts(const Json& facts, ComparedRun& run) {
  const Json& settings = facts.at("settings");
  if (settings.is_object()) {
    for (const auto& [key, setting] : settings.members()) {
      if (!setting.is_object() ||
          std::any_of(kSectionsLeftOut.begin(), kSectionsLeftOut.end(),
                      [&key = key](std::string_view section) { return key.starts_with(section); }))
        continue;
      std::string axis = key;
      for (const auto& [name, axis_name] : kShortAxes)
        if (key == name) axis = axis_name;
      run.axes[axis] = plain_text(setting.at("value"));
    }
    const auto word_at = [&](const char* key) {
      const Json& setting = settings.at(key);
      return setting.is_object() ? plain_text(setting.at("value")) : std::string();
    };
    run.arithmetic = find_float_word(word_at("training.mixed_precision"));
    if (!run.arithmetic) run.arithmetic = find_float_word(word_at("model.dtype"));
  }
  const Json& plan = facts.at("plan");
  if (!plan.is_object() || !plan.at("model").is_object()) return;
  const Json& layers = plan.at("model").at("num_layers");
  if (layers.is_number_integer()) run.layers = layers.integer();
}

void find_facts(ComparedRun& run) {
  fs::path folder = fs::absolute(run.path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  for (int up = 0; up < 3; ++up, folder = folder.parent_path()) {
    const std::string path = run_file_path(folder.string());
    if (!exists(path)) continue;
    take_facts(read_run_facts(path), run);
    return;
  }
}

bool is_event_file(const std::string& name) { return name.find("tfevents") != std::string::npos; }

// Returns the folder's files whose names satisfy `is_wanted`, sorted.
template <typename IsWanted>
std::vector<std::string> files_in(const std::string& folder, const IsWanted& is_wanted) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (is_wanted(it->path().filename().string())) files.push_back(it->path().string());
  std::sort(files.begin(), files.end());
  return files;
}

void read_folder(ComparedRun& run) {
  if (const std::string metrics = MetricsFile::path_in(run.path); exists(metrics)) {
    read_metrics_lines(metrics, run.scalars);
  } else {
    for (const std::string& file : files_in(run.path, is_event_file))
      read_events(read_text(file, kMostEventBytes), file, run.scalars);
  }
  if (run.scalars.curves.empty()) run.tensors = find_tensors(run.path);
  if (!run.scalars.curves.empty() || !run.tensors.empty()) return;
  const auto is_table = [](const std::string& name) { return name.ends_with(".csv"); };
  // Several tables could have columns of the same name.
  if (const auto tables = files_in(run.path, is_table); tables.size() == 1)
    read_csv_columns(tables.front(), run.scalars);
}

void read_contents(ComparedRun& run) {
  std::error_code unknown;
  const std::string name = base_name(run.path);
  if (!exists(run.path)) {
    throw Error(ErrorKind::kInput, {.what = "there is no such file or folder",
                                    .where = run.path,
                                    .remedy = "name the results of a run"});
  }
  if (fs::is_directory(run.path, unknown)) {
    read_folder(run);
  } else if (name.ends_with(".jsonl")) {
    read_metrics_lines(run.path, run.scalars);
  } else if (name.ends_with(".csv")) {
    read_csv_columns(run.path, run.scalars);
  } else if (is_event_file(name)) {
    read_events(read_text(run.path, kMostEventBytes), run.path, run.scalars);
  } else {
    run.tensors = find_tensors(run.path);
  }
  if (!run.scalars.curves.empty() || !run.tensors.empty()) return;
  throw Error(ErrorKind::kInput,
              {.what = "there is nothing to compare",
               .where = run.path,
               .remedy = "name a file .jsonl, .csv, .safetensors or events.out.tfevents.*, or a "
                         "folder with one"});
}

}  // namespace

std::string ComparedRun::label() const {
  std::vector<std::string> parts;
  for (const auto& [axis, value] : given_axes) parts.push_back(formatted("{}={}", axis, value));
  return formatted("{} ({})", name, parts.empty() ? path : join(parts, ","));
}

ComparedRun read_compared_run(const std::string& argument, std::size_t index) {
  ComparedRun run;
  run.name =
      index < 26 ? std::string(1, static_cast<char>('A' + index)) : formatted("R{}", index + 1);
  run.path = take_label(argument, run.given_axes);
  read_contents(run);
  find_facts(run);
  if (!run.given_axes.empty()) run.axes = run.given_axes;
  return run;
}

}  // namespace sluice
