#include "job/flight_records.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "launch/socket.h"
#include "sluice/error.h"
#include "sluice/parts/log.h"

namespace sluice {
namespace {

// Enough for the last microbatches of any schedule; some 30 KB a rank.
constexpr std::size_t kKeptActions = 256;

// A handler can reach nothing else. -1: nobody listens.
std::atomic<int> signal_event{-1};
static_assert(std::atomic<int>::is_always_lock_free);

void add_to(int event, std::uint64_t value) {
  [[maybe_unused]] const ssize_t written = ::write(event, &value, sizeof value);
}

void on_record_signal(int /*number*/) {
  const int saved = errno;
  if (const int event = signal_event.load(); event >= 0) add_to(event, 1);
  errno = saved;
}

// More than any number of signals.
constexpr std::uint64_t kEnd = std::uint64_t{1} << 48;

}  // namespace

FlightRecords::FlightRecords(const LocalRanks& ranks, const std::string& metrics_folder,
                             std::string run)
    : folder_(metrics_folder + "/flight"), run_(std::move(run)) {
  for (const int rank : ranks.here)
    recorders_.emplace(rank, std::make_unique<FlightRecorder>(kKeptActions));
}

std::map<int, const FlightRecorder*> FlightRecords::recorders() const {
  std::map<int, const FlightRecorder*> all;
  for (const auto& [rank, recorder] : recorders_) all[rank] = recorder.get();
  return all;
}

bool FlightRecords::write(const std::string& reason, const std::optional<FlightFailure>& failure) {
  const std::lock_guard lock(writing_);
  std::vector<FlightRecord> records;
  for (const auto& [rank, recorder] : recorders_) {
    FlightRecord record = recorder->record();
    if (record.pass == 0) continue;  // not even which program is known
    record.run = run_;
    record.host = machine_name();
    record.pid = getpid();
    record.reason = reason;
    record.failure = failure;
    records.push_back(std::move(record));
  }
  if (records.empty()) return false;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  for (const FlightRecord& record : records) {
    const std::string path = folder_ + "/" + flight_file_name(record.rank);
    const int failed = error ? error.value() : replace_file(path, flight_json(record));
    if (failed == 0) continue;
    log_warning(file_error(ErrorKind::kUsage, "cannot write a flight record", path, failed).what());
    return false;
  }
  return true;
}

std::string FlightRecords::write_failure(const Failure& failure) noexcept {
  try {
    const FlightFailure recorded{failure.rank, static_cast<int>(failure.kind), failure.message};
    return write("failure", recorded) ? folder_ : "";
  } catch (...) {  // the failure is what counts
    return "";
  }
}

void FlightRecords::write_on_request() noexcept {
  try {
    if (write("signal", std::nullopt)) {
      log_info("flight records of " +
               counted(static_cast<std::int64_t>(recorders_.size()), "rank") + " in " + folder_ +
               "; `sluice debug flight " + folder_ + "` compares them");
    } else {
      log_info("no rank here has run anything yet: there is no flight record");
    }
  } catch (const std::exception& error) {
    log_warning(std::string("cannot write flight records: ") + error.what());
  }
}

struct FlightSignal::Impl {
  explicit Impl(FlightRecords& records) : event(eventfd(0, EFD_CLOEXEC)) {
    if (event < 0) {
      throw Error(ErrorKind::kMemory, {.what = "cannot watch for SIGUSR2: " + errno_text(errno),
                                       .remedy = "raise `ulimit -n`"});
    }
    thread = std::thread([this, &records] {
      std::uint64_t count = 0;
      while (true) {
        const ssize_t got = ::read(event, &count, sizeof count);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 || count >= kEnd) return;
        records.write_on_request();
      }
    });
  }
  ~Impl() {
    add_to(event, kEnd);
    thread.join();
    close(event);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const int event;
  std::thread thread;
};

FlightSignal::FlightSignal(FlightRecords& records) : impl_(std::make_unique<Impl>(records)) {
  signal_event = impl_->event;
  struct sigaction action = {};
  action.sa_handler = on_record_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR2, &action, nullptr);
  sigset_t request;
  sigemptyset(&request);
  sigaddset(&request, SIGUSR2);
  pthread_sigmask(SIG_UNBLOCK, &request, nullptr);  // the program has held it back until now
}

FlightSignal::~FlightSignal() { signal_event = -1; }

}  // namespace sluice
