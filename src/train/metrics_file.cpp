#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "sluice/error.h"
#include "sluice/metrics.h"

namespace sluice {
namespace {

Error write_error(const std::string& path, const std::string& reason) {
  return Error(ErrorKind::kUsage, "cannot write the metrics: " + reason, path,
               "set metrics.folder to a folder that can be written to");
}

}  // namespace

MetricsFile::MetricsFile(const std::string& folder) : path_(folder + "/metrics.jsonl") {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw write_error(folder, error.message());

  const std::string temporary = path_ + ".tmp-" + std::to_string(getpid());
  descriptor_ = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw write_error(path_, std::strerror(errno));
  if (rename(temporary.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    unlink(temporary.c_str());
    close(descriptor_);
    throw write_error(path_, std::strerror(reason));
  }
}

MetricsFile::~MetricsFile() { close(descriptor_); }

void MetricsFile::append(const StepMetrics& metrics) {
  const std::string line = to_json(metrics) + "\n";
  std::size_t written = 0;
  while (written < line.size()) {
    const ssize_t count = write(descriptor_, line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw write_error(path_, std::strerror(errno));
    written += static_cast<std::size_t>(count);
  }
}

}  // namespace sluice
