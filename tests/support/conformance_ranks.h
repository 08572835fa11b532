#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sluice/parts/transport.h"

namespace sluice::test {

using TransportFactory = std::vector<std::unique_ptr<Transport>> (*)(int size,
                                                                     const TransportOptions&);

class ConformanceRanks : public ::testing::TestWithParam<TransportFactory> {
 protected:
  void start(int size, std::chrono::milliseconds deadline = std::chrono::milliseconds(20'000)) {
    transports = GetParam()(size, TransportOptions{deadline});
    ASSERT_EQ(transports.size(), static_cast<std::size_t>(size));
  }
  // Returns the error text of each rank, "" for none.
  std::vector<std::string> on_every_rank(const std::function<void(Transport&)>& body) {
    std::vector<std::string> errors(transports.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < transports.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(*transports[rank]);
        } catch (const Error& error) {
          errors[rank] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }
  static bool soon(const std::function<bool()>& condition) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  static void expect_no_errors(const std::vector<std::string>& errors) {
    for (const std::string& error : errors) EXPECT_EQ(error, "");
  }

  std::vector<std::unique_ptr<Transport>> transports;
};

}  // namespace sluice::test
