// Shows every instruction as a named range in torch's profilers. Costs almost nothing without a
// profiler.
#pragma once

#include <ATen/record_function.h>

#include <optional>

#include "sluice/parts/observers.h"

namespace sluice {

class ProfilerRanges final : public ExecutorObserver {
 public:
  void begin(int /*index*/, const Action& action) override {
    range_.emplace(at::RecordScope::USER_SCOPE);
    if (range_->isActive()) range_->before(to_text(action));
  }
  void end(int /*index*/, const Action& /*action*/) override { range_.reset(); }
  void failed(int /*index*/, const Action& /*action*/) noexcept override { range_.reset(); }

 private:
  std::optional<at::RecordFunction> range_;
};

}  // namespace sluice
