#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "io/check_writable.h"
#include "job/earlier_metrics.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/parts/log.h"
#include "sluice/parts/metrics.h"

namespace sluice {
namespace {

Error write_error(const std::string& path, int error_number) {
  return file_error(ErrorKind::kUsage, "cannot write the metrics of metrics.folder", path,
                    error_number);
}

// Puts a file with the lines up to last_step in the place of `path`.
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
    log_warning("dropped from " + path + ": " + dropped);
}

}  // namespace

std::string MetricsFile::path_in(const std::string& folder) { return folder + "/metrics.jsonl"; }

void MetricsFile::check(const std::string& folder) {
  check_writable(folder, ErrorKind::kUsage);
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
  descriptor_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) throw write_error(path_, errno);
  struct stat status;
  if (fstat(descriptor_, &status) == 0) size_ = status.st_size;
}

MetricsFile::~MetricsFile() { close(descriptor_); }

void MetricsFile::append(const StepMetrics& metrics) {
  const std::string line = to_json(metrics) + "\n";
  if (const int failed = write_all(descriptor_, line)) {
    // No half of a line stays; should that fail too, the first reason is the one to know.
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
