#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "job/control_line.h"
#include "job/socket.h"
#include "job/store_client.h"
#include "job/store_server.h"

namespace sluice::testing {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Longer than anything in a passing test takes.
inline constexpr milliseconds kLong{20'000};
inline const std::string kSecret = "what only this job knows";

inline StoreServerOptions server_options() {
  StoreServerOptions options;
  options.secret = kSecret;
  return options;
}

inline milliseconds since(Clock::time_point begin) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
}

inline bool eventually(const std::function<bool()>& holds, milliseconds within = kLong) {
  for (const auto begin = Clock::now(); since(begin) < within;) {
    if (holds()) return true;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return holds();
}

class Stranger {
 public:
  explicit Stranger(const StoreAddress& address) {
    std::string reason;
    socket_ = connect_to(address.host, address.port, deadline_in(kLong), reason);
  }
  bool is_connected() const { return static_cast<bool>(socket_); }
  bool say(std::string bytes) { return socket_.send(bytes); }
  // Returns what arrives within `time` or until the connection ends.
  std::string hear(milliseconds time) {
    std::string heard;
    const Deadline deadline = deadline_in(time);
    while (wait_for(socket_, false, deadline)) {
      if (!socket_.receive(heard, std::size_t{1} << 20)) {
        ended_ = true;
        break;
      }
    }
    return heard;
  }
  bool has_ended() const { return ended_; }

 private:
  Socket socket_;
  bool ended_ = false;
};

}  // namespace sluice::testing
