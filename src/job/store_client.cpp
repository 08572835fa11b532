#include "job/store_client.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "base/format.h"
#include "job/store_connection.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kReplyTime{30'000};

}  // namespace

struct StoreClient::Impl {
  Impl(StoreAddress where, std::string with, Milliseconds timeout)
      : address(std::move(where)),
        secret(std::move(with)),
        connection(address, secret, deadline_in(timeout)) {}

  [[noreturn]] void fail(const std::string& what, const std::string& remedy) const {
    throw Error(
        ErrorKind::kPeer,
        {.what = what, .where = host_and_port(address.host, address.port), .remedy = remedy});
  }

  // `fill` packs the arguments and `use` unpacks the answer. Returns false on timeout.
  template <class Fill, class Use>
  bool ask(Ask what, Milliseconds waits, const Fill& fill, const Use& use) {
    const std::lock_guard lock(mutex);
    if (broken) fail("the store of the job is gone", "look at how process 0 ended");
    const std::int64_t id = next_id++;
    Packer writer;
    writer.add(id).add(static_cast<int>(what));
    fill(writer);
    const Deadline deadline = deadline_in(waits) + reply_time.load();
    bool ended = false;
    while (const std::optional<std::string> frame = exchange(writer, deadline, ended)) {
      Unpacker reader(*frame, "answer of the job's store");
      if (reader.take<std::int64_t>() != id) continue;
      switch (static_cast<Answer>(reader.take<int>())) {
        case Answer::kDone:
          use(reader);
          reader.finish();
          return true;
        case Answer::kTimedOut:
          return false;
        case Answer::kFailed: {
          const JobFailure failure = take_failure(reader);
          throw Error(failure.kind, {.what = failure.message});
        }
        case Answer::kRefused:
          throw Error(ErrorKind::kUsage, {.what = reader.take<std::string>()});
      }
    }
    if (ended) fail("the store of the job is gone", "look at how process 0 ended");
    fail("the store of the job does not answer", "check that process 0 still runs");
  }

  // Sends `writer` unless empty, then waits for a frame. After a failure, all later calls fail.
  std::optional<std::string> exchange(Packer& writer, Deadline deadline, bool& ended) {
    if (!writer.bytes().empty()) ended = !connection.send(writer.bytes(), deadline);
    broken = true;
    writer = {};
    if (ended) return std::nullopt;
    std::optional<std::string> frame = connection.receive(deadline, ended);
    broken = !frame;
    return frame;
  }

  const StoreAddress address;
  const std::string secret;
  std::mutex mutex;
  StoreConnection connection;
  std::int64_t next_id = 0;
  bool broken = false;
  std::atomic<bool> outlives_failure{false};
  std::atomic<Milliseconds> reply_time{kReplyTime};
};

namespace {

const auto kNothing = [](Unpacker&) {};
constexpr StoreClient::Milliseconds kAtOnce{0};

}  // namespace

StoreClient::StoreClient(StoreAddress address, std::string secret, Milliseconds timeout)
    : impl_(std::make_unique<Impl>(std::move(address), std::move(secret), timeout)) {}
StoreClient::~StoreClient() = default;

const StoreAddress& StoreClient::address() const { return impl_->address; }
const std::string& StoreClient::secret() const { return impl_->secret; }
void StoreClient::set_reply_time(Milliseconds time) { impl_->reply_time = time; }
void StoreClient::outlive_failure() { impl_->outlives_failure = true; }
std::string StoreClient::own_host() const { return local_host(impl_->connection.socket()); }

void StoreClient::set(const std::string& key, const std::string& value) {
  impl_->ask(
      Ask::kSet, kAtOnce, [&](Packer& writer) { writer.add(key).add(value); }, kNothing);
}

std::string StoreClient::get(const std::string& key, Milliseconds timeout) {
  std::string value;
  const bool found = impl_->ask(
      Ask::kGet, timeout,
      [&](Packer& writer) {
        writer.add(timeout.count()).add(impl_->outlives_failure.load()).add(key);
      },
      [&](Unpacker& reader) { value = reader.take<std::string>(); });
  if (!found) {
    impl_->fail(formatted("no process has set '{}' within {} ms", key, timeout.count()),
                "check that all processes of the job run");
  }
  return value;
}

bool StoreClient::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
  return impl_->ask(
      Ask::kWait, timeout,
      [&](Packer& writer) {
        writer.add(timeout.count()).add(impl_->outlives_failure.load()).add(keys);
      },
      kNothing);
}

bool StoreClient::has(const std::vector<std::string>& keys) {
  bool there = false;
  impl_->ask(
      Ask::kHas, kAtOnce, [&](Packer& writer) { writer.add(keys); },
      [&](Unpacker& reader) { there = reader.take<bool>(); });
  return there;
}

std::int64_t StoreClient::add(const std::string& key, std::int64_t amount) {
  std::int64_t sum = 0;
  impl_->ask(
      Ask::kAdd, kAtOnce, [&](Packer& writer) { writer.add(key).add(amount); },
      [&](Unpacker& reader) { sum = reader.take<std::int64_t>(); });
  return sum;
}

std::string StoreClient::compare_set(const std::string& key, const std::string& expected,
                                     const std::string& desired) {
  std::string value;
  impl_->ask(
      Ask::kCompareSet, kAtOnce,
      [&](Packer& writer) { writer.add(key).add(expected).add(desired); },
      [&](Unpacker& reader) { value = reader.take<std::string>(); });
  return value;
}

void StoreClient::append(const std::string& key, const std::string& value) {
  impl_->ask(
      Ask::kAppend, kAtOnce, [&](Packer& writer) { writer.add(key).add(value); }, kNothing);
}

bool StoreClient::remove(const std::string& key) {
  bool removed = false;
  impl_->ask(
      Ask::kRemove, kAtOnce, [&](Packer& writer) { writer.add(key); },
      [&](Unpacker& reader) { removed = reader.take<bool>(); });
  return removed;
}

std::int64_t StoreClient::num_keys() {
  std::int64_t count = 0;
  impl_->ask(
      Ask::kCount, kAtOnce, [](Packer&) {},
      [&](Unpacker& reader) { count = reader.take<std::int64_t>(); });
  return count;
}

}  // namespace sluice
