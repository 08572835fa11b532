#include "job/store_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "job/judge_clock.h"
#include "job/line_table.h"
#include "job/sha256.h"
#include "job/socket.h"
#include "job/store_protocol.h"
#include "job/store_values.h"
#include "sluice/error.h"

#include "base/as_error.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxStrangers = 128;
constexpr milliseconds kGreetedWithin{2000};
// Above so many unsent bytes to a client, the server stops reading its requests (kMaxUnread) or
// sending heartbeats (kMaxUnreadBeats).
constexpr std::size_t kMaxUnread = kMaxFrame, kMaxUnreadBeats = std::size_t{1} << 16;
constexpr milliseconds kLastWords{500};
constexpr milliseconds kPauseWhenFull{50};

struct Wait {
  std::int64_t id = 0;
  bool is_get = false;
  bool outlives_failure = false;
  std::vector<std::string> keys;
  Deadline deadline;
};

struct KnownEnd {
  int process = 0;
  std::string how;
  bool has_reported = false;
};

struct Connection {
  Socket socket;
  std::string received, to_send;
  Deadline greet_by;
  std::string nonce;
  bool is_known = false, has_ended = false;
  FrameWriter writer{""};
  FrameReader reader{""};
  std::optional<Wait> wait;
  std::optional<int> line;
};

}  // namespace

struct StoreServer::Impl {
  explicit Impl(StoreServerOptions given)
      : options(std::move(given)),
        listener(listen_at(options.host, options.port)),
        wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        port(local_port(listener)),
        lines(options.grace),
        judge(Clock::now()) {
    if (!wake) throw system_error("cannot start the job's store", errno);
    server = std::thread([this] { serve(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
      for (Connection& connection : connections) {
        if (connection.line) tell(connection, Packer().add(word(LineWord::kEnd)));
      }
    }
    wake_up();
    server.join();
  }

  static int word(LineWord value) { return static_cast<int>(value); }

  void wake_up() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(wake.descriptor(), &one, sizeof one);
  }

  void serve() {
    for (;;) {
      std::vector<pollfd> polled;
      std::vector<Connection*> whose;
      int timeout = 0;
      {
        const std::lock_guard lock(mutex);
        const bool unsent =
            std::any_of(connections.begin(), connections.end(),
                        [](const Connection& connection) { return !connection.to_send.empty(); });
        if (stopping && !stop_by) stop_by = deadline_in(kLastWords);
        if (stopping && (!unsent || Clock::now() >= *stop_by)) return;
        list_polled(polled, whose);
        known_ends.insert(known_ends.end(), reported_ends.begin(), reported_ends.end());
        reported_ends.clear();
        timeout = poll_milliseconds(next_deadline());
      }
      ::poll(polled.data(), polled.size(), timeout);
      const std::lock_guard lock(mutex);
      step(polled, whose);
    }
  }

  void list_polled(std::vector<pollfd>& polled, std::vector<Connection*>& whose) {
    const Deadline now = Clock::now();
    polled.push_back({wake.descriptor(), POLLIN, 0});
    const bool accepts = !stopping && now >= accept_again;
    polled.push_back({accepts ? listener.descriptor() : -1, POLLIN, 0});
    for (Connection& connection : connections) {
      const bool reads = connection.to_send.size() <= kMaxUnread;
      const int events = (reads ? POLLIN : 0) | (connection.to_send.empty() ? 0 : POLLOUT);
      polled.push_back({connection.socket.descriptor(), static_cast<short>(events), 0});
      whose.push_back(&connection);
    }
  }

  Deadline next_deadline() const {
    Deadline next = deadline_in(std::chrono::hours(1));
    const auto until = [&next](Deadline deadline) { next = std::min(next, deadline); };
    const Deadline now = Clock::now();
    if (stop_by) until(*stop_by);
    if (now < accept_again) until(accept_again);
    if (const auto heartbeat = lines.shortest_heartbeat())
      until(now + (lines.has_suspect() ? milliseconds(5) : check_interval(*heartbeat)));
    for (const Connection& connection : connections) {
      if (!connection.is_known) until(connection.greet_by);
      if (connection.wait) until(connection.wait->deadline);
    }
    return next;
  }

  void step(const std::vector<pollfd>& polled, const std::vector<Connection*>& whose) {
    const Deadline now = Clock::now();
    const auto heartbeat = lines.shortest_heartbeat();
    judge.tick(now, max_check_interval(heartbeat.value_or(milliseconds(1000))));
    if (polled[0].revents) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake.descriptor(), &count, sizeof count);
    }
    // Read all messages before deciding who is lost.
    for (std::size_t i = 0; i < whose.size(); ++i) {
      if (polled[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) read(*whose[i]);
    }
    if (polled[1].revents) accept_all();
    if (heartbeat && now >= next_beat) {
      next_beat = now + beat_period(*heartbeat);
      beat();
    }
    // These processes ended before the poll, so we have read all their messages.
    for (const KnownEnd& end : known_ends) {
      if (finished.contains(end.process)) continue;
      // Only a process without a control line printed its error itself.
      const bool has_reported = end.has_reported && !lines.knows(end.process);
      JobFailure failure = lines.lost(end.process, end.how);
      if (has_reported) failure.teller = end.process;
      fail(failure);
    }
    known_ends.clear();
    while (auto failure = lines.judge(now, judge.counted())) {
      losses[failure->process] = failure->message;
      fail(*failure);
    }
    for (Connection& connection : connections) {
      if (!connection.is_known && now >= connection.greet_by) connection.has_ended = true;
      answer_wait(connection, now);
      flush(connection);
    }
    std::erase_if(connections, [](const Connection& connection) { return connection.has_ended; });
    if (lines.empty()) no_lines.notify_all();
  }

  void accept_all() {
    for (int taken = 0; taken < 256; ++taken) {
      bool full = false;
      Socket socket = accept_from(listener, full);
      // Unauthenticated connections must not use up the descriptors.
      if (full && !end_oldest_stranger()) accept_again = Clock::now() + kPauseWhenFull;
      if (!socket) return;
      const auto strangers =
          std::count_if(connections.begin(), connections.end(), [](const Connection& connection) {
            return !connection.is_known && !connection.has_ended;
          });
      if (strangers >= static_cast<std::ptrdiff_t>(kMaxStrangers)) end_oldest_stranger();
      Connection& connection = connections.emplace_back();
      connection.socket = std::move(socket);
      connection.greet_by = deadline_in(kGreetedWithin);
      connection.nonce = random_bytes(kNonceBytes);
      connection.to_send = connection.nonce;
    }
  }

  bool end_oldest_stranger() {
    for (Connection& connection : connections) {
      if (connection.is_known || connection.has_ended) continue;
      connection.has_ended = true;
      connection.socket.close();
      return true;
    }
    return false;
  }

  void read(Connection& connection) {
    if (connection.has_ended) return;
    const std::size_t limit =
        connection.is_known ? kReadAtOnce : kMaxGreeting - connection.received.size();
    const bool alive = connection.socket.receive(connection.received, limit);
    try {
      if (!connection.is_known) greet(connection);
      while (connection.is_known && !connection.has_ended) {
        const auto frame = connection.reader.take(connection.received);
        if (!frame) break;
        Unpacker reader(*frame, "question to the job's store");
        connection.line ? hear(connection, reader) : answer(connection, reader);
      }
    } catch (const std::exception&) {
      end(connection);
    }
    if (!alive) end(connection);
  }

  void greet(Connection& connection) {
    if (connection.received.size() < kMaxGreeting) return;
    const Greeting greeting(options.secret, connection.nonce,
                            connection.received.substr(0, kNonceBytes));
    if (!same_bytes(connection.received.substr(kNonceBytes), greeting.client_proof())) {
      refused_from = remote_host(connection.socket);
      return end(connection);
    }
    if (!refused_from.empty() && refused_from == remote_host(connection.socket))
      refused_from.clear();
    connection.is_known = true;
    connection.received.clear();
    connection.to_send += greeting.server_proof();
    connection.writer = FrameWriter(greeting.key(false));
    connection.reader = FrameReader(greeting.key(true));
  }

  void end(Connection& connection) {
    connection.has_ended = true;
    if (!connection.line) return;
    lines.end(*connection.line, Clock::now());
    connection.line.reset();
    for (Connection& other : connections) {
      if (other.line) tell(other, Packer().add(word(LineWord::kAsk)));
    }
  }

  void flush(Connection& connection) {
    if (!connection.has_ended && !connection.to_send.empty() &&
        !connection.socket.send(connection.to_send)) {
      end(connection);
    }
  }

  void tell(Connection& connection, const Packer& what) {
    connection.to_send += connection.writer.frame(what.bytes());
  }

  void answer(Connection& connection, Unpacker& question) {
    const auto id = question.take<std::int64_t>();
    const auto ask = static_cast<Ask>(question.take<int>());
    if (ask == Ask::kLine) return open_line(connection, id, question);
    connection.wait.reset();
    if (ask == Ask::kGet || ask == Ask::kWait) {
      const milliseconds timeout(question.take<std::int64_t>());
      Wait& wait = connection.wait.emplace();
      wait.id = id;
      wait.is_get = ask == Ask::kGet;
      wait.outlives_failure = question.take<bool>();
      wait.keys = wait.is_get ? std::vector{question.take<std::string>()}
                              : question.take<std::vector<std::string>>();
      wait.deadline = deadline_in(timeout);
      return;
    }
    Packer answer;
    answer.add(id);
    values.answer(ask, question, answer);
    question.finish();
    tell(connection, answer);
  }

  void answer_wait(Connection& connection, Deadline now) {
    if (!connection.wait || connection.has_ended) return;
    const Wait& wait = *connection.wait;
    Packer answer;
    answer.add(wait.id);
    if (values.has(wait.keys)) {
      answer.add(static_cast<int>(Answer::kDone));
      if (wait.is_get) answer.add(values.get(wait.keys.front()));
    } else if (first_failure && !wait.outlives_failure) {
      answer.add(static_cast<int>(Answer::kFailed));
      put_failure(answer, *first_failure);
    } else if (now >= wait.deadline) {
      answer.add(static_cast<int>(Answer::kTimedOut));
    } else {
      return;
    }
    tell(connection, answer);
    connection.wait.reset();
  }

  void open_line(Connection& connection, std::int64_t id, Unpacker& hello) {
    LineTable::Line line;
    line.process = hello.take<int>();
    line.name = hello.take<std::string>();
    line.ranks = hello.take<std::vector<int>>();
    line.heartbeat = milliseconds(std::max<std::int64_t>(1, hello.take<std::int64_t>()));
    hello.finish();
    connection.line = line.process;
    finished.erase(line.process);
    next_beat = Clock::now();  // the first control line starts the heartbeats
    const auto failure = lines.open(line, judge.counted());
    tell(connection, Packer()
                         .add(id)
                         .add(static_cast<int>(Answer::kDone))
                         .add(options.process)
                         .add(options.name));
    if (failure) {
      connection.line.reset();
      if (!first_failure) fail(*failure);
      tell_failure(connection);
    } else if (first_failure) {
      tell_failure(connection);
    }
  }

  void hear(Connection& connection, Unpacker& said) {
    const int process = *connection.line;
    switch (static_cast<LineWord>(said.take<int>())) {
      case LineWord::kBeat:
        lines.heard(process, said.take<std::string>(), judge.counted());
        return;
      case LineWord::kReport: {
        JobFailure failure = take_failure(said);
        failure.process = process;
        record(failure);
        return;
      }
      case LineWord::kHung: {
        const int rank = said.take<int>();
        const auto what = said.take<std::string>(), remedy = said.take<std::string>();
        return warn(hung_text(what, lines.who_waits_for(rank), remedy));
      }
      case LineWord::kFinish:
        lines.finish(process);
        finished.insert(process);
        connection.line.reset();
        connection.has_ended = true;
        return;
      default:
        end(connection);
    }
  }

  void beat() {
    const int teller = lines.lowest_alive(options.process);
    for (Connection& connection : connections) {
      if (!connection.line || connection.to_send.size() > kMaxUnreadBeats) continue;
      tell(connection, Packer().add(word(LineWord::kBeat)).add(teller));
    }
  }

  void warn(const std::string& text) {
    const int teller = lines.lowest_alive(/*but=*/-1);
    for (Connection& connection : connections) {
      if (connection.line == teller)
        tell(connection, Packer().add(word(LineWord::kWarning)).add(text));
    }
  }

  void record(JobFailure failure) {
    if (first_failure) return;
    const bool is_consequence = failure.kind == ErrorKind::kPeer && lines.has_suspect();
    if (is_consequence) return;
    failure.teller = lines.lives(failure.process)
                         ? failure.process
                         : std::max(0, lines.lowest_alive(failure.process));
    fail(failure);
  }

  void fail(const JobFailure& failure) {
    if (first_failure) return;
    first_failure = failure;
    for (Connection& connection : connections) {
      if (connection.line) tell_failure(connection);
    }
  }

  void tell_failure(Connection& connection) {
    Packer failure;
    failure.add(word(LineWord::kFailure));
    put_failure(failure, *first_failure);
    tell(connection, failure);
  }

  const StoreServerOptions options;
  const Socket listener;
  const Socket wake;
  const int port;

  mutable std::mutex mutex;  // guards the members below
  std::condition_variable no_lines;
  bool stopping = false;
  std::optional<Deadline> stop_by;
  Deadline accept_again{}, next_beat{};
  std::list<Connection> connections;
  StoreValues values;
  LineTable lines;
  std::set<int> finished;
  std::map<int, std::string> losses;
  std::string refused_from;
  std::vector<KnownEnd> reported_ends, known_ends;
  SilenceClock judge;
  std::optional<JobFailure> first_failure;
  std::thread server;
};

StoreServer::StoreServer(StoreServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
StoreServer::~StoreServer() = default;

StoreAddress StoreServer::address() const {
  const std::string& host = impl_->options.host;
  return {host.empty() ? "127.0.0.1" : host, impl_->port};
}

void StoreServer::report(const JobFailure& failure) noexcept {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->record(failure);
  }
  impl_->wake_up();
}

void StoreServer::report_end(int process, const std::string& how, bool has_reported) noexcept {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->reported_ends.push_back({process, how, has_reported});
  }
  impl_->wake_up();
}

std::optional<JobFailure> StoreServer::failure() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->first_failure;
}

bool StoreServer::has(const std::string& key) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->values.has({key});
}

std::optional<std::string> StoreServer::loss_of(int process) const {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->losses.find(process);
  return found == impl_->losses.end() ? std::nullopt : std::optional(found->second);
}

std::string StoreServer::refused() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->refused_from;
}

bool StoreServer::wait_for_lines(milliseconds timeout) {
  std::unique_lock lock(impl_->mutex);
  return impl_->no_lines.wait_until(lock, deadline_in(timeout),
                                    [this] { return impl_->lines.empty(); });
}

}  // namespace sluice
