// The plug-in with real NCCL, if there is a GPU. One rank sends to itself, because two ranks need
// two GPUs.
#include "comm/nccl_plugin.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <thread>

#include "device/device.h"
#include "device/simulated_device.h"
#include "sluice/error.h"

namespace sluice::test {
namespace {

TEST(NcclPluginTest, ARankSendsToItself) {
  if (sim::is_simulated()) GTEST_SKIP() << "this LibTorch has no CUDA";
  at::Device device = at::kCPU;
  try {
    device = devices_of_ranks(DeviceKind::kCuda, {}).devices.front();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const FoundNccl& found = find_nccl();
  if (!found.table) GTEST_SKIP() << found.missing;
  const nccl::Table& table = *found.table;
  const c10::DeviceGuard guard(device);

  nccl::UniqueId id{};
  ASSERT_EQ(table.get_unique_id(&id), nccl::kSuccess);
  nccl::Comm comm = nullptr;
  const auto settled = [&](nccl::Result result) {
    for (int i = 0; result == nccl::kInProgress && i < 30'000; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_EQ(table.get_async_error(comm, &result), nccl::kSuccess);
    }
    return result;
  };
  ASSERT_EQ(settled(table.comm_init_rank(&comm, 1, id, 0)), nccl::kSuccess);

  const c10::Stream stream =
      c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, false);
  const at::Tensor given = at::arange(100'000, at::TensorOptions(device));
  const at::Tensor taken = at::zeros_like(given);
  c10::Event computed(device.type());
  computed.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  computed.block(stream);
  ASSERT_EQ(table.group_start(), nccl::kSuccess);
  EXPECT_EQ(table.send(given.const_data_ptr(), given.nbytes(), 0, comm, stream.native_handle()),
            nccl::kSuccess);
  EXPECT_EQ(
      table.receive(taken.mutable_data_ptr(), taken.nbytes(), 0, comm, stream.native_handle()),
      nccl::kSuccess);
  ASSERT_EQ(settled(table.group_end()), nccl::kSuccess);
  stream.synchronize();
  EXPECT_TRUE(at::equal(taken.cpu(), at::arange(100'000)));

  EXPECT_EQ(settled(table.comm_finalize(comm)), nccl::kSuccess);
  EXPECT_EQ(table.comm_destroy(comm), nccl::kSuccess);
}

}  // namespace
}  // namespace sluice::test
