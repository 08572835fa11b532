// Logs which processes a long wait is for, every 30 seconds, and at once if a wrong secret was
// refused.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "job/store_server.h"

namespace sluice {

class WaitNotice {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kAgain{30'000};

  // `server`: null if another process serves.
  WaitNotice(const StoreServer* server, std::chrono::milliseconds first)
      : server_(server), next_(Clock::now() + first) {}

  // Call several times a second. `for_whom`: "machine 1 of 2 at 10.0.0.7:29500".
  void tick(const std::function<std::string()>& for_whom);
  std::string refused_text() const;

 private:
  const StoreServer* const server_;
  Clock::time_point next_;
  bool has_told_ = false;
  std::string refused_;
};

}  // namespace sluice
