#include "report/metrics_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/line_reader.h"
#include "base/log.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

struct EarlierLines {
  std::int64_t kept = 0;
  std::int64_t later = 0;    // after the step from which the run resumes
  std::int64_t foreign = 0;  // torn, repeated or malformed
};

constexpr std::size_t kChunk = std::size_t{1} << 20;

// Returns nothing for a damaged line, such as zeros after a power failure.
std::optional<std::int64_t> step_of_line(std::string_view line, const std::string& file) {
  try {
    const Json object = parse_strict_json(line, file);
    const Json& step = object.at("step");
    if (!object.contains("loss") || !step.is_number_integer()) return std::nullopt;
    const std::int64_t value = step.integer();
    return value >= 1 ? std::optional(value) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Copies complete lines up to `last_step` if their steps ascend, and syncs them to disk. A missing
// `from` counts as empty. On Error(kUsage) the file `to` may remain.
EarlierLines copy_earlier_lines(const std::string& from, const std::string& to,
                                std::int64_t last_step) {
  File target = File::create(to, ErrorKind::kUsage);
  EarlierLines lines;
  std::string kept;
  std::uint64_t written = 0;
  const auto flush = [&] {
    target.write(kept.data(), kept.size(), written);
    written += kept.size();
    kept.clear();
  };
  std::error_code unknown;
  if (std::filesystem::exists(from, unknown)) {
    const File source = File::open(from, ErrorKind::kUsage);
    LineReader reader(source, MetricsFile::kLongestLine, ErrorKind::kUsage);
    std::int64_t newest = 0;
    while (const std::optional<LineReader::Line> line = reader.next()) {
      const std::optional<std::int64_t> step =
          line->has_end && !line->is_too_long ? step_of_line(line->text, from) : std::nullopt;
      if (!step || *step <= newest) {
        ++lines.foreign;
      } else if (*step > last_step) {
        ++lines.later;
      } else {
        ++lines.kept;
        newest = *step;
        kept.append(line->text).append("\n");
        if (kept.size() >= kChunk) flush();
      }
    }
  }
  flush();
  target.sync();
  target.close();
  return lines;
}

// Returns "3 lines after step 5 and 1 damaged or foreign line", or "".
std::string dropped_text(const EarlierLines& lines, std::int64_t last_step) {
  std::vector<std::string> parts;
  if (lines.later > 0)
    parts.push_back(formatted("{} after step {}", counted(lines.later, "line"), last_step));
  if (lines.foreign > 0) parts.push_back(counted(lines.foreign, "damaged or foreign line"));
  return join(parts, " and ");
}

Error write_error(const std::string& path, int error_number) {
  return file_error(ErrorKind::kUsage, "cannot write the metrics of metrics.folder", path,
                    error_number);
}

void keep_earlier_lines(const std::string& path, std::int64_t last_step) {
  const std::string temporary = path + ".tmp-" + unique_suffix();
  EarlierLines lines;
  try {
    lines = copy_earlier_lines(path, temporary, last_step);
    if (std::rename(temporary.c_str(), path.c_str()) != 0) throw write_error(path, errno);
  } catch (const Error&) {
    unlink(temporary.c_str());
    throw;
  }
  if (const std::string dropped = dropped_text(lines, last_step); !dropped.empty())
    log_warning(formatted("dropped from {}: {}", path, dropped));
}

}  // namespace

std::string MetricsFile::path_in(const std::string& folder) { return folder + "/metrics.jsonl"; }

void MetricsFile::require_free_place(const std::string& folder) {
  std::error_code ignored;
  if (std::filesystem::is_directory(std::filesystem::symlink_status(path_in(folder), ignored))) {
    throw write_error(path_in(folder), EISDIR);
  }
}

MetricsFile::MetricsFile(const std::string& folder, std::int64_t last_step)
    : path_(path_in(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw write_error(folder, error.value());

  if (last_step > 0) {
    keep_earlier_lines(path_, last_step);
  } else if (const int failed = replace_file(path_, "")) {
    throw write_error(path_, failed);
  }
  descriptor_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor_ < 0) throw write_error(path_, errno);
  struct stat status;
  if (fstat(descriptor_, &status) == 0) size_ = status.st_size;
}

MetricsFile::~MetricsFile() { close(descriptor_); }

void MetricsFile::append(const StepMetrics& metrics) {
  const std::string line = to_json(metrics) + "\n";
  if (const int failed = write_all(descriptor_, line)) {
    // If this fails too, the first error is the one to report.
    [[maybe_unused]] const int cut = ftruncate(descriptor_, size_);
    throw write_error(path_, failed);
  }
  size_ += static_cast<std::int64_t>(line.size());
}

void MetricsFile::sync() {
  if (fdatasync(descriptor_) != 0) throw write_error(path_, errno);
  if (name_is_on_disk_) return;
  try {
    sync_directory(parent_directory(path_));
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage,
                {.what = error.fact(), .where = error.where(), .remedy = error.remedy()});
  }
  name_is_on_disk_ = true;
}

void MetricsFile::require_in_place() const {
  struct stat ours, named;
  if (fstat(descriptor_, &ours) == 0 && stat(path_.c_str(), &named) == 0 &&
      ours.st_dev == named.st_dev && ours.st_ino == named.st_ino) {
    return;
  }
  throw Error(ErrorKind::kUsage,
              {.what = "the metrics of this run are gone: their file was removed",
               .where = path_,
               .remedy = "leave the file alone while a run writes it"});
}

}  // namespace sluice
