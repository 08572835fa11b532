// An authenticated connection to a store's server. Not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "job/socket.h"
#include "job/store_client.h"
#include "job/store_protocol.h"

namespace sluice {

inline constexpr const char* kSecretRemedy =
    "start all processes of the job alike, with the same secret";

class StoreConnection {
 public:
  // Retries until `deadline`. Throws Error(kPeer) if the server does not answer or has another
  // secret.
  StoreConnection(const StoreAddress& address, const std::string& secret, Deadline deadline);

  const Socket& socket() const { return socket_; }
  // False if the connection has ended or the deadline passed.
  bool send(const std::string& bytes, Deadline deadline);
  // For callers that poll the socket. False if the connection has ended.
  bool read_available();
  std::optional<std::string> take_frame() { return reader_.take(received_); }
  // Returns nothing at the deadline, or at the end of the connection, which sets `ended`.
  std::optional<std::string> receive(Deadline deadline, bool& ended);

 private:
  Socket socket_;
  std::string received_;
  FrameWriter writer_;
  FrameReader reader_;
};

}  // namespace sluice
