// Non-blocking TCP sockets; every wait has a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace sluice {

using Deadline = std::chrono::steady_clock::time_point;
// Returns now + timeout, at most a year, so that it cannot overflow.
Deadline deadline_in(std::chrono::milliseconds timeout);
// Returns the time left for poll(), from 0 to one hour.
int poll_milliseconds(Deadline deadline);

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int descriptor() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  void close();

  // Appends at most `limit` received bytes. Returns false if the connection has ended.
  bool receive(std::string& bytes, std::size_t limit);
  // Sends what it can without waiting, and removes it from `bytes`. Returns false if the connection
  // has ended.
  bool send(std::string& bytes);
  void shut_down();

 private:
  int descriptor_ = -1;
};

// Host "" means all addresses, port 0 a free port. Throws Error(kUsage) for a port or address that
// cannot be used, otherwise Error(kPeer).
Socket listen_at(const std::string& host, int port);
// Returns an empty Socket if no connection waits. Sets `full` if no descriptors are left.
Socket accept_from(const Socket& listener, bool& full);

// Returns an empty Socket and sets `reason` on failure. A retry may succeed.
Socket connect_to(const std::string& host, int port, Deadline deadline, std::string& reason);

int local_port(const Socket& socket);
// Returns this machine's address on the route to a numeric address, or "" if unreachable. Sends
// nothing.
std::string local_host_towards(const std::string& address);
std::string local_host(const Socket& socket);
std::string remote_host(const Socket& socket);
// Returns "node7:29500" or "[::1]:29500".
std::string host_and_port(const std::string& host, int port);
bool is_loopback(const std::string& host);
bool is_address_here(const std::string& host);
std::string machine_name();

// Waits until the socket can send or receive. Returns false at the deadline.
bool wait_for(const Socket& socket, bool for_sending, Deadline deadline);

}  // namespace sluice
