// The autocast state of a rank's thread.
//
// Thread-safety: a scope belongs to the thread that made it; scopes end in reverse order.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

// Devices that have an autocast.
inline constexpr std::array kAutocastDevices = {at::kCPU, at::kCUDA};

// While it lives, this thread is under autocast to `type` on every device (the executor turns it
// off for anything but a forward); without a type, under the state that it has. Either way without
// the cache of casted weights: that is one of the process, and would tie the graph of a microbatch
// to those of others.
class AutocastScope {
 public:
  // Throws Error(kUsage) for a type other than kBFloat16.
  explicit AutocastScope(std::optional<at::ScalarType> type);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  struct Saved {
    bool enabled = false;
    at::ScalarType type = at::kFloat;
  };
  std::vector<Saved> saved_;  // saved state of each device, when there is a type
  bool cache_ = true;
};

// "off", or for example "cpu bfloat16": what ranks have to have alike.
std::string autocast_state();

}  // namespace sluice
