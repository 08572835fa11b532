#include "job/store_connection.h"

#include <algorithm>
#include <thread>

#include "job/sha256.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kFirstRetry{10}, kLongestRetry{200};
constexpr milliseconds kGreetingTime{5000};
// A busy server may close a connection early, without refusing the secret.
constexpr int kMaxRefusals = 3;

enum class Greeted { kYes, kSilence, kRefused, kWrongSecret };

bool read_exactly(Socket& socket, std::string& bytes, std::size_t count, Deadline deadline,
                  bool& timed_out) {
  bytes.clear();
  while (bytes.size() < count) {
    timed_out = !wait_for(socket, false, deadline);
    if (timed_out || !socket.receive(bytes, count - bytes.size())) break;
  }
  return bytes.size() == count;
}

bool write_all(Socket& socket, std::string bytes, Deadline deadline) {
  for (;;) {
    if (!socket.send(bytes)) return false;
    if (bytes.empty()) return true;
    if (!wait_for(socket, true, deadline)) return false;
  }
}

struct Greeter {
  const std::string& secret;
  std::string write_key, read_key;

  Greeted greet(Socket& socket, Deadline deadline) {
    std::string server_nonce, proof;
    bool timed_out = false;
    if (!read_exactly(socket, server_nonce, kNonceBytes, deadline, timed_out))
      return timed_out ? Greeted::kSilence : Greeted::kRefused;
    const std::string own_nonce = random_bytes(kNonceBytes);
    const Greeting greeting(secret, server_nonce, own_nonce);
    if (!write_all(socket, own_nonce + greeting.client_proof(), deadline)) return Greeted::kRefused;
    if (!read_exactly(socket, proof, kProofBytes, deadline, timed_out))
      return timed_out ? Greeted::kSilence : Greeted::kRefused;
    if (!same_bytes(proof, greeting.server_proof())) return Greeted::kWrongSecret;
    write_key = greeting.key(true);
    read_key = greeting.key(false);
    return Greeted::kYes;
  }
};

[[noreturn]] void fail(const StoreAddress& address, const std::string& what,
                       const std::string& remedy) {
  throw Error(ErrorKind::kPeer,
              {.what = what, .where = host_and_port(address.host, address.port), .remedy = remedy});
}

}  // namespace

StoreConnection::StoreConnection(const StoreAddress& address, const std::string& secret,
                                 Deadline deadline)
    : writer_(""), reader_("") {
  int refusals = 0;
  std::string reason = "no time to try";
  for (milliseconds pause = kFirstRetry;; pause = std::min(2 * pause, kLongestRetry)) {
    const Deadline greeted_by = std::min(deadline, deadline_in(kGreetingTime));
    socket_ = connect_to(address.host, address.port, greeted_by, reason);
    if (socket_) {
      Greeter greeter{secret, {}, {}};
      switch (greeter.greet(socket_, greeted_by)) {
        case Greeted::kYes:
          writer_ = FrameWriter(greeter.write_key);
          reader_ = FrameReader(greeter.read_key);
          return;
        case Greeted::kSilence:
          reason = "it does not answer";
          break;
        case Greeted::kRefused:
          reason = "it ends the connection";
          if (++refusals < kMaxRefusals) break;
          fail(address, "the store of the job rejects this process's secret", kSecretRemedy);
        case Greeted::kWrongSecret:
          fail(address, "the program that listens there lacks the secret of the job",
               kSecretRemedy);
      }
      socket_.close();
    }
    if (Clock::now() + pause >= deadline) break;
    std::this_thread::sleep_for(pause);
  }
  fail(address, "the store of the job cannot be reached: " + reason,
       "check that process 0 runs and its machine can be reached");
}

bool StoreConnection::send(const std::string& bytes, Deadline deadline) {
  const bool sent = write_all(socket_, writer_.frame(bytes), deadline);
  if (!sent) socket_.shut_down();  // a partial frame cannot be continued
  return sent;
}

bool StoreConnection::read_available() { return socket_.receive(received_, kReadAtOnce); }

std::optional<std::string> StoreConnection::receive(Deadline deadline, bool& ended) {
  for (ended = false;;) {
    if (auto frame = take_frame()) return frame;
    if (ended || !wait_for(socket_, false, deadline)) return std::nullopt;
    ended = !read_available();
  }
}

}  // namespace sluice
