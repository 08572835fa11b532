// Non-blocking TCP sockets; every wait has a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace sluice {

using Deadline = std::chrono::steady_clock::time_point;
// At most a year, so that it cannot overflow.
Deadline deadline_in(std::chrono::milliseconds timeout);
// Milliseconds for poll(), from 0 to one hour.
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

  // Appends at most `limit` available bytes. False if the connection has ended.
  bool receive(std::string& bytes, std::size_t limit);
  // Sends without waiting, and removes sent bytes from `bytes`. False if the connection has ended.
  bool send(std::string& bytes);
  void shut_down();

 private:
  int descriptor_ = -1;
};

// Host "" means all addresses, port 0 a free one. Throws Error(kUsage) for a port or address that
// cannot be used, otherwise Error(kPeer).
Socket listen_at(const std::string& host, int port);
// Returns an empty Socket if no connection waits. `full`: no descriptors are left.
Socket accept_from(const Socket& listener, bool& full);

// Returns an empty Socket on failure, with the reason. A retry may succeed.
Socket connect_to(const std::string& host, int port, Deadline deadline, std::string& reason);

int local_port(const Socket& socket);
// Local address for packets to a numeric address, "" if unreachable. Sends nothing.
std::string local_host_towards(const std::string& address);
std::string local_host(const Socket& socket);
std::string remote_host(const Socket& socket);
// "node7:29500", "[::1]:29500"
std::string host_and_port(const std::string& host, int port);
bool is_loopback(const std::string& host);
bool is_address_here(const std::string& host);
std::string machine_name();

// False at the deadline.
bool wait_for(const Socket& socket, bool for_sending, Deadline deadline);

}  // namespace sluice
