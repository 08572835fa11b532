// An authenticated connection to the server of a store: proofs, then whole frames.
//
// Owns: the socket and what was read of the next frame. Thread-safety: for one thread at a time.
#pragma once

#include <optional>
#include <string>

#include "launch/socket.h"
#include "launch/store_client.h"
#include "launch/store_protocol.h"

namespace sluice {

// The remedy of an Error for a side that does not know the secret of the other.
inline constexpr const char* kSecretRemedy =
    "start all processes of the job in the same way, with the same secret";

class StoreConnection {
 public:
  // Tries again until `deadline` while nobody listens there or the connection is lost. Throws
  // Error(kPeer): nobody answers, or the other side does not know the secret.
  StoreConnection(const StoreAddress& address, const std::string& secret, Deadline deadline);

  const Socket& socket() const { return socket_; }
  // Waits until the system has taken it. False: the connection has ended, or the deadline passed.
  bool send(const std::string& bytes, Deadline deadline);
  // For those who wait for the socket themselves: what is there, false at its end.
  bool receive_what_is_there();
  std::optional<std::string> take_frame() { return reader_.take(received_); }
  // Nothing at the deadline, or when the connection has ended: then `ended` is set.
  std::optional<std::string> receive(Deadline deadline, bool& ended);

 private:
  Socket socket_;
  std::string received_;
  FrameWriter writer_;
  FrameReader reader_;
};

}  // namespace sluice
