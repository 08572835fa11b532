#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <thread>

#include "device/simulated_device_test_case.h"

namespace sluice::sim {
namespace {

const c10::Device kDevice(c10::kCUDA, 1);

// `keeps` keeps the tensors alive to the end.
void transfer(bool keeps) {
  const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
  const c10::Stream compute = guard.getStream(kDevice);
  const c10::Stream side = guard.getStreamFromGlobalPool(kDevice, true);
  at::Tensor from = at::randn({1000}, kDevice) * 2, to = at::empty({1000}, kDevice);
  c10::Event ready(c10::kCUDA), done(c10::kCUDA);
  ready.record(compute);
  {
    const c10::StreamGuard on_side(side);
    ready.block(side);
    to.copy_(from);
    done.record(side);
  }
  from.record_stream(side);
  to.record_stream(side);
  if (!keeps) from.reset();
  done.block(compute);
  to.sum();
}

using DeviceTest = SimulatedDeviceTest;

TEST_F(DeviceTest, LibTorchSeesFourDevices) {
  EXPECT_EQ(at::getAccelerator(), c10::kCUDA);
  EXPECT_EQ(at::accelerator::deviceCount(), kNumDevices);
  const at::Tensor x = at::ones({3}, kDevice);
  EXPECT_TRUE(x.is_cuda());
  EXPECT_EQ(x.add(1).sum().item<double>(), 6);
}

TEST_F(DeviceTest, ATransferWithEventsAndRecordedStreamsHasNoRace) {
  transfer(true);
  transfer(false);
}

TEST_F(DeviceTest, AMissingWaitIsNamed) {
  EXPECT_TRUE(unnoticed(Call::kWait, [] { transfer(true); }).empty());
  reset_counts();
  forget(Call::kWait, 0);
  transfer(true);
  const std::vector<std::string> races = take_races();
  ASSERT_FALSE(races.empty());
  EXPECT_NE(races[0].find("copy on stream"), std::string::npos) << races[0];
  EXPECT_NE(races[0].find("does not wait for the write by aten::"), std::string::npos) << races[0];
}

TEST_F(DeviceTest, MemoryThatIsFreedTooEarlyIsNamed) {
  reset_counts();
  forget(Call::kRecord, 0);
  transfer(false);
  const std::vector<std::string> races = take_races();
  ASSERT_EQ(races.size(), 1u);
  EXPECT_NE(races[0].find("no record_stream"), std::string::npos) << races[0];
}

TEST_F(DeviceTest, ACopyToPinnedMemoryIsThereOnlyOnceTheHostHasWaited) {
  const at::Tensor staged = at::empty({100}, at::TensorOptions().pinned_memory(true));
  ASSERT_TRUE(staged.is_pinned());
  staged.copy_(at::ones({100}, kDevice), /*non_blocking=*/true);
  EXPECT_FALSE(staged.eq(1).any().item<bool>());
  c10::Event done(c10::kCUDA);
  done.record(c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(kDevice));
  done.synchronize();
  EXPECT_TRUE(staged.eq(1).all().item<bool>());
}

TEST_F(DeviceTest, DevicesWaitForEachOtherInACopyBetweenThem) {
  const at::Tensor there = (at::ones({50}, kDevice) * 3).to(c10::Device(c10::kCUDA, 2));
  EXPECT_EQ(there.device().index(), 2);
  EXPECT_EQ(there.sum().item<double>(), 150);
}

TEST_F(DeviceTest, AThreadHasADeviceOfItsOwn) {
  int index = -1;
  std::thread([&] {
    const c10::DeviceGuard guard(c10::Device(c10::kCUDA, 3));
    index = at::ones({4}, c10::kCUDA).device().index();
  }).join();
  EXPECT_EQ(index, 3);
  EXPECT_EQ(at::ones({4}, c10::kCUDA).device().index(), 0);
}

TEST_F(DeviceTest, ABackwardRunsOnTheEnginesThreadOfTheDeviceAndGivesItsMemoryBack) {
  const std::int64_t before = live_bytes();
  {
    torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::GELU(),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})),
                              torch::nn::Linear(16, 4));
    net->to(kDevice);
    std::thread::id engine;
    const at::Tensor out = net->forward(at::randn({5, 8}, kDevice));
    out.register_hook([&](const at::Tensor&) { engine = std::this_thread::get_id(); });
    torch::mse_loss(out, at::zeros({5, 4}, kDevice)).backward();
    EXPECT_NE(engine, std::thread::id());
    EXPECT_NE(engine, std::this_thread::get_id());
    for (const at::Tensor& parameter : net->parameters()) EXPECT_TRUE(parameter.grad().is_cuda());
  }
  EXPECT_EQ(live_bytes(), before);
}

}  // namespace
}  // namespace sluice::sim
