#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

inline constexpr std::array kAutocastDevices = {at::kCPU, at::kCUDA};

// Enables autocast to `type` on this thread, for every device. Without a type, the present state
// remains. Torch's cache of casted weights is always off: it is shared by the process and would
// link the graphs of different microbatches.
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
  std::vector<Saved> saved_;
  bool cache_ = true;
};

// For example "off" or "cpu bfloat16". All ranks must have the same state.
std::string autocast_state();

}  // namespace sluice
