// Sends tensors of a CUDA device over Gloo, which moves host memory. Skipped without a CUDA device.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "support/gloo_processes.h"

namespace sluice::test {
namespace {

class CudaStagingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || at::getNumGPUs() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

std::uintptr_t alignment(const at::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 64;
}

TEST_F(CudaStagingTest, ATensorLiesOnTheDeviceAsItDidAtItsSender) {
  const at::Tensor square = at::randn({300, 300}, at::kCUDA);
  const std::vector<at::Tensor> sent = {square,
                                        square.t(),
                                        square.narrow(1, 3, 200),
                                        square.view(-1).narrow(0, 1, 40'000),
                                        square.to(at::kBFloat16),
                                        at::arange(5, at::TensorOptions(at::kCUDA)),
                                        at::full({}, 3.5, at::kCUDA).expand({40, 40}),
                                        at::empty({0, 4}, at::kCUDA),
                                        at::Tensor(),
                                        at::ones({2}),
                                        at::randn({4}, at::kCUDA).set_requires_grad(true)};
  const auto ends = gloo_processes(2, 2);
  ends[0]->send(1, ChannelKind::kActivation, {{1, 0, 1}, sent});
  const Message got =
      ends[1]->wait(ends[1]->post_receive(0, ChannelKind::kActivation, {1, 0, 1}, std::nullopt));
  ASSERT_EQ(got.tensors.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const at::Tensor &there = got.tensors[i], &here = sent[i];
    ASSERT_EQ(there.defined(), here.defined()) << i;
    if (!here.defined()) continue;
    EXPECT_EQ(there.device(), here.device()) << i;
    EXPECT_EQ(there.strides(), here.strides()) << i;
    EXPECT_EQ(there.requires_grad(), here.requires_grad()) << i;
    EXPECT_TRUE(there.dtype() == here.dtype() && at::equal(there, here)) << i;
    if (here.numel() == 0) continue;
    EXPECT_EQ(alignment(there), alignment(here)) << i;
    EXPECT_NE(there.const_data_ptr(), here.const_data_ptr()) << i;
  }
}

TEST_F(CudaStagingTest, ASumIsOnTheDeviceAndTheSameBitsOnEveryProcess) {
  const auto ends = gloo_processes(3, 3);
  std::vector<at::Tensor> terms, sums(3);
  for (int rank = 0; rank < 3; ++rank) terms.push_back(at::randn({50'000}, at::kCUDA));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back(
        [&, rank] { sums[rank] = ends[rank]->world().all_reduce(terms[rank]).wait(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const at::Tensor& sum : sums) {
    EXPECT_TRUE(sum.device().is_cuda());
    EXPECT_TRUE(at::equal(sum, terms[0] + terms[1] + terms[2]));
  }
}

}  // namespace
}  // namespace sluice::test
