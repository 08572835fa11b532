#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "sluice/parts/transport.h"

namespace sluice::test {
namespace {

TEST(LocalTransportTest, HandsOverTheStorageItself) {
  auto transports = make_local_transports(2);
  const at::Tensor tensor = at::ones({4});
  transports[0]->send(1, ChannelKind::kActivation, {{1, 0, 1}, {tensor}});
  const Message got = transports[1]->wait(
      transports[1]->post_receive(0, ChannelKind::kActivation, {1, 0, 1}, std::nullopt));
  EXPECT_EQ(got.tensors[0].data_ptr(), tensor.data_ptr());
}

TEST(LocalTransportTest, KeepsNothingOfAMessageThatWasTaken) {
  auto transports = make_local_transports(2);
  at::Tensor tensor = at::ones({4});
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage(tensor.storage().getWeakStorageImpl());
  transports[0]->send(1, ChannelKind::kActivation, {{1, 0, 1}, {tensor}});
  tensor.reset();
  const auto ticket =
      transports[1]->post_receive(0, ChannelKind::kActivation, {1, 0, 1}, std::nullopt);
  EXPECT_FALSE(storage.expired());
  transports[1]->wait(ticket);
  EXPECT_TRUE(storage.expired());
}

}  // namespace
}  // namespace sluice::test
