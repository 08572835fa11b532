// TCP sockets that never wait longer than a given time.
//
// Owns: descriptors, all of them non-blocking and closed on exec; names to addresses. Does not own:
// the protocol (store_protocol.h). Thread-safety: one thread a socket.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace sluice {

using Deadline = std::chrono::steady_clock::time_point;
// Now + `timeout`, at most a year: no timeout is too long to be added.
Deadline deadline_in(std::chrono::milliseconds timeout);
// Until then, at least 0 and, for poll(), at most an hour.
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

  // Appends to `bytes` what is there now, at most `limit` bytes. False at the end of the
  // connection, however it ended.
  bool receive(std::string& bytes, std::size_t limit);
  // Takes what was sent from the front of `bytes`. False when the connection has ended.
  bool send(std::string& bytes);
  // Ends the connection; both sides find its end.
  void shut_down();

 private:
  int descriptor_ = -1;
};

// Listens. host: a name or an address of this machine, "" for all of IPv6 and IPv4. port: 0 for a
// free one. Throws Error(kUsage) for a port that is taken or not allowed and for an address that is
// none of this machine's, else Error(kPeer).
Socket listen_at(const std::string& host, int port);
// The next of the waiting connections; an empty socket when there is none, with `full` set when
// there are no descriptors left for it.
Socket accept_from(const Socket& listener, bool& full);

// A connection, or an empty socket with the reason (nobody listens, no such host yet): worth trying
// again.
Socket connect_to(const std::string& host, int port, Deadline deadline, std::string& reason);

int local_port(const Socket& socket);
// The address of this machine from which packets to that one (a numeric address) go; "" where none
// do. Nothing is sent.
std::string local_host_towards(const std::string& address);
std::string local_host(const Socket& socket);   // "127.0.0.1"
std::string remote_host(const Socket& socket);  // of the other end
// "node7:29500", "[::1]:29500"
std::string host_and_port(const std::string& host, int port);
bool is_loopback(const std::string& host);
// True if one can listen there: the name may mean an address that only other machines use for this.
bool is_address_here(const std::string& host);
std::string machine_name();

// Waits until the socket can be read or, with for_sending, written. False at the deadline.
bool wait_for(const Socket& socket, bool for_sending, Deadline deadline);

}  // namespace sluice
