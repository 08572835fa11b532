#include "job/control_line.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "job/judge_clock.h"
#include "job/line_table.h"
#include "job/store_connection.h"
#include "sluice/error.h"

#include "base/as_error.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// A send takes longer only if the server has stopped reading.
constexpr milliseconds kSendTime{1000};

int word(LineWord value) { return static_cast<int>(value); }

}  // namespace

struct ControlLine::Impl {
  Impl(const StoreAddress& where, const std::string& secret, ControlLineOptions given)
      : address(where),
        options(std::move(given)),
        connection(where, secret, deadline_in(options.connect_timeout)),
        wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        judge(Clock::now()) {
    if (!wake) throw system_error("cannot open the control line", errno);
    open();
    thread = std::thread([this] { serve(); });
  }

  ~Impl() {
    end(false);
    if (thread.joinable()) thread.join();
  }

  void open() {
    const Deadline deadline = deadline_in(options.connect_timeout);
    Packer hello;
    hello.add(std::int64_t{0})
        .add(static_cast<int>(Ask::kLine))
        .add(options.process)
        .add(options.name)
        .add(options.ranks)
        .add(options.heartbeat.count());
    bool ended = !connection.send(hello.bytes(), deadline);
    const auto frame = ended ? std::nullopt : connection.receive(deadline, ended);
    if (!frame) {
      throw Error(ErrorKind::kPeer, {.what = "the server of the job does not accept a control line",
                                     .where = host_and_port(address.host, address.port),
                                     .remedy = "find out how process 0 ended"});
    }
    Unpacker answer(*frame, "answer of the job's server");
    answer.take<std::int64_t>();
    answer.take<int>();
    server_process = answer.take<int>();
    server_name = answer.take<std::string>();
  }

  void wake_up() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(wake.descriptor(), &one, sizeof one);
  }

  void serve() {
    try {
      while (!is_over()) step();
      return;
    } catch (const Error& error) {
      lose_server(std::string("is lost: ") + error.fact(), remedy_for_end());
    }
  }

  bool is_over() {
    const std::lock_guard lock(mutex);
    return ending || server_gone;
  }

  void step() {
    const Deadline now = Clock::now();
    if (now >= next_beat) beat();
    pollfd polled[2] = {{connection.socket().descriptor(), POLLIN, 0},
                        {wake.descriptor(), POLLIN, 0}};
    ::poll(polled, 2,
           poll_milliseconds(std::min(next_beat, now + check_interval(options.heartbeat))));
    judge.tick(Clock::now(), max_check_interval(options.heartbeat));
    if (polled[1].revents) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake.descriptor(), &count, sizeof count);
    }
    const bool alive = !polled[0].revents || connection.read_available();
    while (auto frame = connection.take_frame()) hear(Unpacker(*frame, "job's server"));
    send_reports();
    if (is_over()) return;
    if (!alive) return lose_server("is lost: its connection ended", remedy_for_end());
    if (judge.counted() - last_heard > options.heartbeat) {
      lose_server(silence_text(options.heartbeat), remedy_for_silence());
    }
  }

  void beat() {
    next_beat = Clock::now() + beat_period(options.heartbeat);
    const std::string status = options.status ? options.status() : std::string();
    connection.send(Packer().add(word(LineWord::kBeat)).add(status).bytes(),
                    deadline_in(kSendTime));
  }

  void hear(Unpacker said) {
    last_heard = judge.counted();
    switch (static_cast<LineWord>(said.take<int>())) {
      case LineWord::kBeat:
        reporter_if_server_lost = said.take<int>();
        return;
      case LineWord::kAsk:
        return beat();
      case LineWord::kFailure:
        return fail(take_failure(said));
      case LineWord::kWarning: {
        const auto warning = said.take<std::string>();
        if (options.on_warning) options.on_warning(warning);
        return;
      }
      case LineWord::kEnd: {
        const std::lock_guard lock(mutex);
        server_gone = true;
        told.notify_all();
        return;
      }
      default:
        throw Error(ErrorKind::kPeer, {.what = "its message is not understood"});
    }
  }

  void send_reports() {
    for (;;) {
      std::string report;
      {
        const std::lock_guard lock(mutex);
        if (reports.empty()) return;
        report = std::move(reports.front());
        reports.pop_front();
      }
      connection.send(report, deadline_in(kSendTime));
    }
  }

  int local_reporter() const {
    const bool is_here = reporter_if_server_lost >= options.first_here &&
                         reporter_if_server_lost < options.first_here + options.num_here;
    if (is_here) return reporter_if_server_lost;
    return reporter_if_server_lost >= 0 ? options.first_here : options.process;
  }

  void lose_server(const std::string& how, const std::string& remedy) {
    const Error error(ErrorKind::kPeer, {.what = server_name + " " + how,
                                         .where = options.status ? options.status() : std::string(),
                                         .remedy = remedy});
    {  // Set this first: callbacks of the failure may call has_lost_server().
      const std::lock_guard lock(mutex);
      server_lost = true;
    }
    fail({.process = server_process,
          .kind = error.kind(),
          .message = error.what(),
          .teller = local_reporter()});
    const std::lock_guard lock(mutex);
    server_gone = true;
    told.notify_all();
  }

  void fail(const JobFailure& first) {
    {
      const std::lock_guard lock(mutex);
      if (failure || ending) return;
      failure = first;
      told.notify_all();
    }
    if (options.on_failure) options.on_failure(first);
  }

  void report(const Packer& own) {
    {
      const std::lock_guard lock(mutex);
      if (ending || failure) return;
      reports.push_back(own.bytes());
    }
    wake_up();
  }

  void end(bool well) {
    {
      const std::lock_guard lock(mutex);
      if (ending) return;
      ending = true;
      told.notify_all();
    }
    wake_up();
    if (thread.joinable() && thread.get_id() != std::this_thread::get_id()) thread.join();
    try {
      send_reports();
      if (well)
        connection.send(Packer().add(word(LineWord::kFinish)).bytes(), deadline_in(kSendTime));
    } catch (const std::exception&) {
    }
  }

  const StoreAddress address;
  const ControlLineOptions options;
  StoreConnection connection;
  const Socket wake;
  std::string server_name;
  int server_process = -1, reporter_if_server_lost = -1;
  SilenceClock judge;
  Clock::duration last_heard{0};
  Deadline next_beat{};

  std::mutex mutex;  // guards the members below
  std::condition_variable told;
  std::deque<std::string> reports;
  std::optional<JobFailure> failure;
  bool ending = false, server_gone = false, server_lost = false;
  std::thread thread;
};

ControlLine::ControlLine(const StoreAddress& address, const std::string& secret,
                         ControlLineOptions options)
    : impl_(std::make_unique<Impl>(address, secret, std::move(options))) {}
ControlLine::~ControlLine() = default;

void ControlLine::report(const JobFailure& failure) noexcept {
  try {
    Packer report;
    report.add(word(LineWord::kReport));
    put_failure(report, failure);
    impl_->report(report);
  } catch (const std::exception&) {
  }
}

void ControlLine::report_hung(int rank, const std::string& what,
                              const std::string& remedy) noexcept {
  try {
    impl_->report(Packer().add(word(LineWord::kHung)).add(rank).add(what).add(remedy));
  } catch (const std::exception&) {
  }
}

std::optional<JobFailure> ControlLine::wait_for_failure(milliseconds patience) {
  std::unique_lock lock(impl_->mutex);
  impl_->told.wait_until(lock, deadline_in(patience),
                         [this] { return impl_->failure || impl_->ending || impl_->server_gone; });
  return impl_->failure;
}

bool ControlLine::has_lost_server() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->server_lost;
}

void ControlLine::finish() noexcept { impl_->end(true); }

}  // namespace sluice
