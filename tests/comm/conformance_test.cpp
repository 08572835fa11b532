#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "support/expect_error.h"
#include "support/gloo_processes.h"
#include "support/group_conformance.h"
#include "support/transport_conformance.h"

namespace sluice::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Local, TransportConformance, ::testing::Values(&make_local_transports));
INSTANTIATE_TEST_SUITE_P(Local, GroupConformance, ::testing::Values(&make_local_transports));
// One thread per rank of a process group of the caller.
std::vector<std::unique_ptr<Transport>> transports_of_group(int size,
                                                            const TransportOptions& options) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::unique_ptr<Transport>> endpoints(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      c10d::ProcessGroup group(store, rank, size);
      endpoints[static_cast<std::size_t>(rank)] = make_transport(group, options);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return endpoints;
}

INSTANTIATE_TEST_SUITE_P(Group, TransportConformance, ::testing::Values(&transports_of_group));
INSTANTIATE_TEST_SUITE_P(Group, GroupConformance, ::testing::Values(&transports_of_group));
INSTANTIATE_TEST_SUITE_P(Gloo, TransportConformance, ::testing::Values(&single_gloo_processes));
INSTANTIATE_TEST_SUITE_P(Gloo, GroupConformance, ::testing::Values(&single_gloo_processes));
INSTANTIATE_TEST_SUITE_P(Mixed, TransportConformance, ::testing::Values(&mixed_gloo_processes));
INSTANTIATE_TEST_SUITE_P(Mixed, GroupConformance, ::testing::Values(&mixed_gloo_processes));

TEST(GroupTransportTest, NeedsAStoreAndADevicePerRank) {
  c10d::ProcessGroup without_store(0, 2);
  const Error no_store = error_of([&] { make_transport(without_store); });
  EXPECT_EQ(no_store.kind(), ErrorKind::kUsage);
  EXPECT_NE(std::string(no_store.what()).find("has no store"), std::string::npos);
  const Error devices = error_of([&] { make_transport(without_store, {.devices = {at::kCPU}}); });
  EXPECT_NE(std::string(devices.what()).find("1 devices for 2 ranks"), std::string::npos);
}

TEST(GroupTransportTest, AGroupHasSeveralTransportsOneAfterAnother) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      c10d::ProcessGroup group(store, rank, 2);
      for (int i = 0; i < 3; ++i) {
        const auto transport = make_transport(group);
        const auto sum = transport->world().all_reduce(at::full({2}, rank + i, at::kFloat)).wait();
        EXPECT_TRUE(at::equal(sum, at::full({2}, 1 + 2 * i, at::kFloat)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sluice::test
