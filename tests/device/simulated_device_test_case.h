#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device/simulated_device.h"

namespace sluice::sim {

class SimulatedDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_simulated()) GTEST_SKIP() << "this LibTorch has CUDA: nothing is simulated";
    forget_nothing();
    reset_counts();
    take_races();
  }
  void TearDown() override {
    forget_nothing();
    for (const std::string& race : take_races()) ADD_FAILURE() << race;
  }
};

// Skips each call of a kind in turn. Returns the indices of the calls whose absence caused no race.
inline std::vector<std::int64_t> unnoticed(Call call, const std::function<void()>& run) {
  forget_nothing();
  reset_counts();
  run();
  const std::int64_t calls = number_of(call, counts());
  EXPECT_GT(calls, 0);
  for (const std::string& race : take_races()) ADD_FAILURE() << "with all calls: " << race;
  std::vector<std::int64_t> unnoticed;
  for (std::int64_t n = 0; n < calls; ++n) {
    reset_counts();
    forget(call, n);
    run();
    if (take_races().empty()) unnoticed.push_back(n);
  }
  forget_nothing();
  return unnoticed;
}

}  // namespace sluice::sim
