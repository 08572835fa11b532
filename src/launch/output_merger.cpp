#include "launch/output_merger.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/as_error.h"
#include "base/file.h"
#include "base/log.h"
#include "job/socket.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kHoldPart{100};
constexpr std::string_view kError = "sluice: error: ", kWarning = "sluice: warning: ";

constexpr std::size_t kMostHeld = std::size_t{1} << 20;
constexpr std::size_t kMostShownOnce = 10'000;

// A new log replaces a link, and never writes to its target. A restart appends.
int open_log_file(const std::string& path, bool anew) {
  struct stat status;
  if (anew && ::lstat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode) &&
      !S_ISCHR(status.st_mode))
    ::unlink(path.c_str());
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
                0666);
}

}  // namespace

class OutputMerger::Log {
 public:
  explicit Log(const std::string& path, bool anew) : path_(path), file_(open_log_file(path, anew)) {
    if (!file_) throw file_error(ErrorKind::kUsage, "cannot write the log", path, errno);
  }
  void write(std::string_view bytes) {
    if (broken_) return;
    const int failed = write_all(file_.descriptor(), bytes);
    if (failed == 0) return;
    broken_ = true;
    log_warning("the log is not written any more: " + errno_text(failed) + "; " + path_);
  }

 private:
  const std::string path_;
  const Socket file_;
  bool broken_ = false;
};

struct OutputMerger::Impl {
  struct Source {
    Socket pipe;
    int show = -1;
    bool as_lines = false;
    std::shared_ptr<Log> log;
    std::string held;
    Clock::time_point held_since;
  };

  ~Impl() {
    if (thread.joinable()) finish(milliseconds(1000));
  }

  void finish(milliseconds patience) {
    if (!thread.joinable()) return;
    {
      const std::lock_guard lock(mutex);
      end_by = deadline_in(patience);
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(wake.descriptor(), &one, sizeof one);
    thread.join();
  }

  std::optional<Deadline> ends_by() {
    const std::lock_guard lock(mutex);
    return end_by;
  }

  void serve() {
    while (!sources.empty()) {
      const std::optional<Deadline> end = ends_by();
      if (end && Clock::now() >= *end) break;
      Deadline next = end.value_or(deadline_in(std::chrono::hours(1)));
      std::vector<pollfd> polled = {{wake.descriptor(), static_cast<short>(end ? 0 : POLLIN), 0}};
      for (const Source& source : sources) {
        polled.push_back({source.pipe.descriptor(), POLLIN, 0});
        if (!source.held.empty()) next = std::min(next, source.held_since + kHoldPart);
      }
      ::poll(polled.data(), polled.size(), poll_milliseconds(next));
      std::size_t at = 1;
      for (auto source = sources.begin(); source != sources.end(); ++at) {
        const bool ended = polled[at].revents && !read(*source);
        if (!source->held.empty() && (ended || Clock::now() >= source->held_since + kHoldPart))
          show_held(*source);
        source = ended ? sources.erase(source) : std::next(source);
      }
    }
    for (Source& source : sources) show_held(source);
  }

  bool read(Source& source) {
    std::array<char, 1 << 16> block;
    const ssize_t got = ::read(source.pipe.descriptor(), block.data(), block.size());
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got == 0) return false;
    const std::string_view bytes(block.data(), static_cast<std::size_t>(got));
    if (source.log) source.log->write(bytes);
    if (!source.as_lines) {
      show(source.show, bytes);
      return true;
    }
    const bool was_empty = source.held.empty();
    source.held += bytes;
    std::size_t begin = 0;
    for (std::size_t end; (end = source.held.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      show_line(source.show, source.held.substr(begin, end + 1 - begin));
    }
    source.held.erase(0, begin);
    if (source.held.size() > kMostHeld) show_held(source);
    if (was_empty || begin > 0) source.held_since = Clock::now();
    return true;
  }

  void show_held(Source& source) {
    if (!source.held.empty()) show_line(source.show, source.held);
    source.held.clear();
  }

  void show_line(int target, const std::string& line) {
    const bool is_error = line.starts_with(kError);
    const bool is_once = is_error || line.starts_with(kWarning);
    if (is_once && shown_once.contains(line)) return;
    if (is_once && shown_once.size() < kMostShownOnce) shown_once.insert(line);
    if (is_error && target >= 0) error_shown = true;
    show(target, line);
  }

  void show(int target, std::string_view bytes) {
    if (target < 0 || broken.contains(target)) return;
    if (write_all(target, bytes) != 0) broken.insert(target);  // a closed pipe, a full disk
  }

  const Socket wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::list<Source> sources;
  std::set<std::string> shown_once;
  std::set<int> broken;
  std::atomic<bool> error_shown{false};
  std::mutex mutex;
  std::optional<Deadline> end_by;
  std::thread thread;
};

OutputMerger::OutputMerger() : impl_(std::make_unique<Impl>()) {
  if (!impl_->wake) throw system_error("cannot collect the output of processes", errno);
}
OutputMerger::~OutputMerger() = default;

std::shared_ptr<OutputMerger::Log> OutputMerger::open_log(const std::string& path, bool anew) {
  return std::make_shared<Log>(path, anew);
}

int OutputMerger::add(int show, bool as_lines, std::shared_ptr<Log> log) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw system_error("cannot make a pipe", errno);
  Impl::Source& source = impl_->sources.emplace_back();
  source.pipe = Socket(ends[0]);
  source.show = show;
  source.as_lines = as_lines;
  source.log = std::move(log);
  return ends[1];
}

void OutputMerger::start() {
  impl_->thread = std::thread([this] { impl_->serve(); });
}

void OutputMerger::finish(milliseconds patience) { impl_->finish(patience); }
bool OutputMerger::has_shown_error() const { return impl_->error_shown; }

}  // namespace sluice
