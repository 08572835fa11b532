// An observer that calls functions. Each may be empty.
#pragma once

#include <functional>
#include <vector>

#include "sluice/parts/observers.h"

namespace sluice::test {

struct CallbackObserver final : ExecutorObserver {
  std::function<void(int index, const Action&)> on_begin, on_end;
  std::function<void(const Action&, std::vector<at::Tensor>& handed_on)> on_produced;

  void begin(int index, const Action& action) override {
    if (on_begin) on_begin(index, action);
  }
  void end(int index, const Action& action) override {
    if (on_end) on_end(index, action);
  }
  void produced(const Action& action, const Values& /*outputs*/,
                std::vector<at::Tensor>& handed_on) override {
    if (on_produced) on_produced(action, handed_on);
  }
};

}  // namespace sluice::test
