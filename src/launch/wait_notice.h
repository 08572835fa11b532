// A notice when a wait for other processes has lasted some seconds, with their names; repeated now
// and then, and given at once when a client that does not know the secret was refused.
// Thread-safety: for one thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "launch/store_server.h"

namespace sluice {

class WaitNotice {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kAgain{30'000};

  // server: of the store that the others come to, where this process serves it, else null. first:
  // after which it is said. Who is refused may be let in a moment later.
  WaitNotice(const StoreServer* server, std::chrono::milliseconds first)
      : server_(server), next_(Clock::now() + first) {}

  // To be called several times a second. for_whom: "machine 1 of 2 at 10.0.0.7:29500".
  void tick(const std::function<std::string()>& for_whom);
  // ", and a peer with another secret was refused (from 10.0.0.9)"; "" where none was.
  std::string refused_text() const;

 private:
  const StoreServer* const server_;
  Clock::time_point next_;
  bool has_told_ = false;
  std::string refused_;  // what was reported of them
};

}  // namespace sluice
