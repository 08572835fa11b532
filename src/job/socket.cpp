#include "job/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <utility>

#include "base/as_error.h"
#include "base/file.h"
#include "base/format.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolve(const std::string& host, int port, bool to_listen, std::string& reason) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                   std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) {
    found = nullptr;
    reason = failed == EAI_SYSTEM ? errno_text(errno) : ::gai_strerror(failed);
  }
  return {found, &::freeaddrinfo};
}

void set_option(int descriptor, int level, int option, int value) {
  ::setsockopt(descriptor, level, option, &value, sizeof value);
}

// Detects a vanished machine within 30 seconds.
void prepare_connection(int descriptor) {
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set_option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

struct Name {
  sockaddr_storage address = {};
  socklen_t size = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
};

int port_of(const Name& name) {
  if (name.address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(name.address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(name.address).sin_port);
}

// Without a listener, a connection to a local port may connect to itself.
bool is_connected_to_itself(const Socket& socket) {
  Name own, peer;
  if (::getsockname(socket.descriptor(), own.get(), &own.size) != 0) return false;
  if (::getpeername(socket.descriptor(), peer.get(), &peer.size) != 0) return false;
  return own.size == peer.size && std::memcmp(&own.address, &peer.address, own.size) == 0;
}

int connect_one(const Socket& socket, const addrinfo& address, Deadline deadline) {
  if (::connect(socket.descriptor(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (!wait_for(socket, true, deadline)) return ETIMEDOUT;
  int failed = 0;
  socklen_t size = sizeof failed;
  if (::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &failed, &size) != 0) return errno;
  return failed;
}

[[noreturn]] void fail_to_listen(const std::string& host, int port, int failed) {
  const std::string where = host_and_port(host.empty() ? "*" : host, port);
  if (failed == EADDRINUSE) {
    throw Error(ErrorKind::kUsage,
                {.what = "the port is taken by another program",
                 .where = where,
                 .remedy = "choose another port, or end the program that listens there"});
  }
  if (failed == EACCES) {
    throw Error(ErrorKind::kUsage, {.what = "this user may not listen at this port",
                                    .where = where,
                                    .remedy = "choose a port above 1023"});
  }
  if (failed == EADDRNOTAVAIL) {
    throw Error(ErrorKind::kUsage, {.what = "this machine does not have this address",
                                    .where = where,
                                    .remedy = "name the machine of process 0"});
  }
  throw system_error("cannot listen", failed, where);
}

}  // namespace

Deadline deadline_in(milliseconds timeout) {
  constexpr milliseconds kLongest = std::chrono::hours(24 * 365);
  return std::chrono::steady_clock::now() + std::clamp(timeout, milliseconds(0), kLongest);
}

int poll_milliseconds(Deadline deadline) {
  const auto left =
      std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3'600'000));
}

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

Socket::~Socket() { close(); }

void Socket::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

bool Socket::receive(std::string& bytes, std::size_t limit) {
  std::array<char, 1 << 16> block;
  for (std::size_t done = 0; done < limit;) {
    const ssize_t got = ::recv(descriptor_, block.data(), std::min(block.size(), limit - done), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (got == 0) return false;
    bytes.append(block.data(), static_cast<std::size_t>(got));
    done += static_cast<std::size_t>(got);
  }
  return true;
}

bool Socket::send(std::string& bytes) {
  std::size_t done = 0;
  bool alive = true;
  while (alive && done < bytes.size()) {
    const ssize_t put = ::send(descriptor_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    alive = put >= 0;
    if (alive) done += static_cast<std::size_t>(put);
  }
  bytes.erase(0, done);
  return alive;
}

void Socket::shut_down() { ::shutdown(descriptor_, SHUT_RDWR); }

Socket listen_at(const std::string& host, int port) {
  std::string reason;
  const Addresses addresses = resolve(host, port, true, reason);
  if (!addresses) {
    throw Error(ErrorKind::kUsage, {.what = "this host's name cannot be resolved: " + reason,
                                    .where = host_and_port(host, port),
                                    .remedy = "name the machine of process 0"});
  }
  int failed = 0;
  // An IPv6 socket accepts IPv4, too, so try IPv6 first.
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* at = addresses.get(); at; at = at->ai_next) {
      if (at->ai_family != family) continue;
      Socket socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!socket) {
        failed = errno;
        continue;
      }
      set_option(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, 1);
      if (family == AF_INET6) set_option(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
      if (::bind(socket.descriptor(), at->ai_addr, at->ai_addrlen) == 0 &&
          ::listen(socket.descriptor(), 1024) == 0) {
        return socket;
      }
      failed = errno;
    }
  }
  fail_to_listen(host, port, failed);
}

Socket accept_from(const Socket& listener, bool& full) {
  for (;;) {
    Socket socket(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      prepare_connection(socket.descriptor());
      return socket;
    }
    // ECONNABORTED: that connection ended before it was accepted.
    if (errno == EINTR || errno == ECONNABORTED) continue;
    full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    return {};
  }
}

Socket connect_to(const std::string& host, int port, Deadline deadline, std::string& reason) {
  const Addresses addresses = resolve(host, port, false, reason);
  for (const addrinfo* at = addresses.get(); at; at = at->ai_next) {
    Socket socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int failed = socket ? connect_one(socket, *at, deadline) : errno;
    if (failed == 0 && !is_connected_to_itself(socket)) {
      prepare_connection(socket.descriptor());
      return socket;
    }
    reason = errno_text(failed == 0 ? ECONNREFUSED : failed);
  }
  return {};
}

int local_port(const Socket& socket) {
  Name name;
  if (::getsockname(socket.descriptor(), name.get(), &name.size) != 0) return 0;
  return port_of(name);
}

namespace {

std::string host_of(Name& name) {
  std::array<char, NI_MAXHOST> text = {};
  if (::getnameinfo(name.get(), name.size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST))
    return {};
  const std::string host = text.data();
  const std::string mapped = "::ffff:";  // IPv4 address on an IPv6 socket
  return host.starts_with(mapped) ? host.substr(mapped.size()) : host;
}

}  // namespace

std::string local_host(const Socket& socket) {
  Name name;
  if (::getsockname(socket.descriptor(), name.get(), &name.size) != 0) return {};
  return host_of(name);
}

std::string remote_host(const Socket& socket) {
  Name name;
  if (::getpeername(socket.descriptor(), name.get(), &name.size) != 0) return {};
  return host_of(name);
}

std::string local_host_towards(const std::string& address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), "9", &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  const Socket socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.descriptor(), found->ai_addr, found->ai_addrlen) != 0) return {};
  return local_host(socket);
}

std::string host_and_port(const std::string& host, int port) {
  const bool bare_ipv6 = host.find(':') != std::string::npos;
  return formatted("{}:{}", bare_ipv6 ? "[" + host + "]" : host, port);
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool is_address_here(const std::string& host) {
  try {
    const Socket free_port = listen_at(host, 0);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string machine_name() {
  std::array<char, HOST_NAME_MAX + 1> name = {};
  if (::gethostname(name.data(), name.size() - 1) != 0 || !name[0]) return "this machine";
  return name.data();
}

bool wait_for(const Socket& socket, bool for_sending, Deadline deadline) {
  const short events = for_sending ? POLLOUT : POLLIN;
  for (;;) {
    pollfd wanted{socket.descriptor(), events, 0};
    const int ready = ::poll(&wanted, 1, poll_milliseconds(deadline));
    if (ready > 0) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
}

}  // namespace sluice
