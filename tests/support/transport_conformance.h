// Tests that every transport must pass. Instantiate them with
//   INSTANTIATE_TEST_SUITE_P(Local, TransportConformance,
//                            ::testing::Values(&make_local_transports));
#pragma once

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "support/conformance_ranks.h"

namespace sluice::test {

class TransportConformance : public ConformanceRanks {
 protected:
  static Message message(int stage, int microbatch, double value, std::int64_t step = 1) {
    return {{stage, microbatch, step}, {at::full({3}, value)}};
  }
  static double value_of(const Message& message) { return message.tensors.at(0)[0].item<double>(); }
};

TEST_P(TransportConformance, KnowsItsRankAndSize) {
  start(3);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(transports[rank]->rank(), rank);
    EXPECT_EQ(transports[rank]->size(), 3);
  }
}

TEST_P(TransportConformance, KeepsTheOrderOfEveryChannel) {
  start(2);
  expect_no_errors(on_every_rank([](Transport& transport) {
    constexpr int kCount = 200;
    const int other = 1 - transport.rank();
    std::vector<Transport::Ticket> activations, gradients;
    for (int i = 0; i < kCount; ++i) {
      transport.send(other, ChannelKind::kActivation, message(1, i, i));
      transport.send(other, ChannelKind::kGradient, message(0, i, 1000 + i));
      activations.push_back(
          transport.post_receive(other, ChannelKind::kActivation, {1, i, 1}, std::nullopt));
      gradients.push_back(
          transport.post_receive(other, ChannelKind::kGradient, {0, i, 1}, std::nullopt));
    }
    for (int i = 0; i < kCount; ++i) {
      EXPECT_EQ(value_of(transport.wait(gradients[i])), 1000 + i);
      EXPECT_EQ(value_of(transport.wait(activations[i])), i);
    }
  }));
}

TEST_P(TransportConformance, CompletesPostsInWhateverOrderTheyAreWaitedFor) {
  start(2);
  expect_no_errors(on_every_rank([](Transport& transport) {
    if (transport.rank() == 0) {
      for (int i = 0; i < 3; ++i)
        transport.send(1, ChannelKind::kActivation, message(1, i, 10 * i));
      return;
    }
    std::vector<Transport::Ticket> tickets;
    for (int i = 0; i < 3; ++i) {
      tickets.push_back(
          transport.post_receive(0, ChannelKind::kActivation, {1, i, 1}, std::nullopt));
    }
    EXPECT_EQ(value_of(transport.wait(tickets[2])), 20);
    EXPECT_EQ(value_of(transport.wait(tickets[0])), 0);
    EXPECT_EQ(value_of(transport.wait(tickets[1])), 10);
  }));
}

TEST_P(TransportConformance, CarriesSeveralTensorsTheirTypesAndWhetherTheyWantGradients) {
  start(2);
  expect_no_errors(on_every_rank([](Transport& transport) {
    if (transport.rank() == 0) {
      at::Tensor wanted = at::ones({2, 3});
      wanted.set_requires_grad(true);
      transport.send(
          1, ChannelKind::kActivation,
          {{1, 0, 1}, {wanted, at::arange(4, at::kLong), at::Tensor(), at::empty({0, 5})}});
      return;
    }
    const Message got = transport.wait(
        transport.post_receive(0, ChannelKind::kActivation, {1, 0, 1}, std::nullopt));
    ASSERT_EQ(got.tensors.size(), 4u);
    EXPECT_TRUE(got.tensors[0].requires_grad());
    EXPECT_TRUE(at::equal(got.tensors[0].detach(), at::ones({2, 3})));
    EXPECT_FALSE(got.tensors[1].requires_grad());
    EXPECT_TRUE(at::equal(got.tensors[1], at::arange(4, at::kLong)));
    EXPECT_FALSE(got.tensors[2].defined());
    EXPECT_EQ(got.tensors[3].sizes(), (std::vector<std::int64_t>{0, 5}));
  }));
}

TEST_P(TransportConformance, RefusesAMessageOfAnotherMicrobatch) {
  start(2);
  const auto errors = on_every_rank([](Transport& transport) {
    if (transport.rank() == 0) {
      transport.send(1, ChannelKind::kActivation, message(1, 7, 0));
    } else {
      transport.wait(transport.post_receive(0, ChannelKind::kActivation, {1, 6, 1}, std::nullopt));
    }
  });
  EXPECT_NE(errors[1].find("another message arrived: 1RECV_F7"), std::string::npos) << errors[1];
  EXPECT_NE(errors[1].find("1RECV_F6"), std::string::npos) << errors[1];
}

TEST_P(TransportConformance,
       RefusesSizesThatContradictCertainOnesAndTakesThoseThatContradictAGuess) {
  for (const bool certain : {true, false}) {
    start(2);
    const auto errors = on_every_rank([&](Transport& transport) {
      if (transport.rank() == 0) {
        transport.send(1, ChannelKind::kActivation, message(1, 0, 5));
        return;
      }
      const ExpectedTensors expected{{TensorMeta{{4}, at::kFloat}}, certain};
      EXPECT_EQ(value_of(transport.wait(
                    transport.post_receive(0, ChannelKind::kActivation, {1, 0, 1}, expected))),
                5);
    });
    if (certain) {
      EXPECT_NE(errors[1].find("expected float32[4], got float32[3]"), std::string::npos)
          << errors[1];
    } else {
      EXPECT_EQ(errors[1], "");
    }
  }
}

TEST_P(TransportConformance, NamesTheMissingMessageAtTheDeadline) {
  start(2, std::chrono::milliseconds(60));
  const auto errors = on_every_rank([](Transport& transport) {
    if (transport.rank() == 1) {
      transport.wait(transport.post_receive(0, ChannelKind::kGradient, {1, 3, 9}, std::nullopt));
    }
  });
  EXPECT_NE(
      errors[1].find("no message within 60 ms; rank 1 waits for 1RECV_B3 of step 9 from rank 0"),
      std::string::npos)
      << errors[1];
}

TEST_P(TransportConformance, AbortEndsEveryWaitWithTheFirstFailure) {
  start(4);
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = on_every_rank([](Transport& transport) {
    switch (transport.rank()) {
      case 0:
        transport.wait(
            transport.post_receive(1, ChannelKind::kActivation, {1, 0, 1}, std::nullopt));
        break;
      case 1:
        transport.world().barrier().wait();
        break;
      case 2:
        transport.wait(transport.post_receive(0, ChannelKind::kGradient, {1, 0, 1}, std::nullopt));
        break;
      default:
        transport.abort({3, ErrorKind::kInput, "rank 3 broke"});
        transport.abort({3, ErrorKind::kMemory, "a later failure"});
        transport.send(0, ChannelKind::kActivation, message(1, 0, 0));
    }
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "rank 3 broke");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15))
      << "a wait ended by its deadline";
  for (const auto& transport : transports) {
    ASSERT_TRUE(transport->failure().has_value());
    EXPECT_EQ(transport->failure()->kind, ErrorKind::kInput);
  }
}

TEST_P(TransportConformance, DropsMessagesOnTheirWayWhenAborted) {
  start(2);
  at::Tensor tensor = at::ones({3});
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage(tensor.storage().getWeakStorageImpl());
  transports[0]->send(1, ChannelKind::kActivation, {{1, 0, 1}, {std::move(tensor)}});
  transports[1]->abort({1, ErrorKind::kInternal, "stop"});
  EXPECT_TRUE(soon([&] { return storage.expired() && transports[0]->failure().has_value(); }));
  EXPECT_THROW(transports[0]->send(1, ChannelKind::kActivation, {{1, 0, 1}, {at::ones({3})}}),
               Error);
}

TEST_P(TransportConformance, KeepsHowATensorLiesInMemory) {
  start(2);
  const at::Tensor base = at::arange(240, at::kFloat).view({4, 5, 12});
  const std::vector<at::Tensor> sent = {
      base,
      base.transpose(0, 2),  // dense, permuted
      base.slice(2, 1, 7),   // with gaps
      base.slice(2, 1, 7).transpose(0, 1),
      at::arange(5).view({1, 5}).expand({3, 5}),                  // repeated
      base.select(0, 1).select(0, 1).as_strided({4, 3}, {2, 1}),  // overlapping
      base.view(-1).slice(0, 3),  // starts 12 bytes after a multiple of 64
      at::scalar_tensor(2.5, at::kDouble),
      base.to(at::kBFloat16).slice(0, 1)};
  expect_no_errors(on_every_rank([&](Transport& transport) {
    if (transport.rank() == 0) {
      transport.send(1, ChannelKind::kActivation, {{1, 0, 1}, sent});
      return;
    }
    const Message got = transport.wait(
        transport.post_receive(0, ChannelKind::kActivation, {1, 0, 1}, std::nullopt));
    ASSERT_EQ(got.tensors.size(), sent.size());
    const auto alignment = [](const at::Tensor& tensor) {
      return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 64;
    };
    for (std::size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(got.tensors[i].strides(), sent[i].strides()) << i;
      EXPECT_EQ(got.tensors[i].scalar_type(), sent[i].scalar_type()) << i;
      EXPECT_EQ(alignment(got.tensors[i]), alignment(sent[i])) << i;
      EXPECT_TRUE(at::equal(got.tensors[i], sent[i])) << i;
    }
  }));
}

TEST_P(TransportConformance, CarriesMessagesOfEverySizeInOrderBothWays) {
  start(2);
  expect_no_errors(on_every_rank([](Transport& transport) {
    const int other = 1 - transport.rank();
    const std::vector<std::int64_t> sizes = {1,     0,      100,     2000,   2030,   2048, 2100,
                                             16384, 300000, 4000000, 300001, 500000, 7};
    std::vector<Transport::Ticket> tickets;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const int microbatch = static_cast<int>(i);
      transport.send(other, ChannelKind::kActivation,
                     {{1, microbatch, 1},
                      {at::full({sizes[i]}, static_cast<double>(i)), at::ones({sizes[i] / 2})}});
      tickets.push_back(transport.post_receive(other, ChannelKind::kActivation, {1, microbatch, 1},
                                               std::nullopt));
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Message got = transport.wait(tickets[i]);
      EXPECT_TRUE(at::equal(got.tensors[0], at::full({sizes[i]}, static_cast<double>(i)))) << i;
      EXPECT_TRUE(at::equal(got.tensors[1], at::ones({sizes[i] / 2}))) << i;
    }
  }));
}

TEST_P(TransportConformance, TakesTwoThousandMessagesBeforeTheFirstReceive) {
  start(2);
  constexpr int kCount = 2000;
  for (int i = 0; i < kCount; ++i) transports[0]->send(1, ChannelKind::kGradient, message(0, i, i));
  for (int i = 0; i < kCount; ++i) {
    const auto ticket =
        transports[1]->post_receive(0, ChannelKind::kGradient, {0, i, 1}, std::nullopt);
    ASSERT_EQ(value_of(transports[1]->wait(ticket)), i);
  }
}

TEST_P(TransportConformance, SaysWhatItsRanksWaitFor) {
  start(2);
  EXPECT_EQ(transports[1]->waits(), "");
  std::thread waiting([&] {
    transports[1]->wait(
        transports[1]->post_receive(0, ChannelKind::kGradient, {1, 3, 9}, std::nullopt));
  });
  EXPECT_TRUE(soon(
      [&] { return transports[1]->waits() == "rank 1 waits for 1RECV_B3 of step 9 from rank 0"; }));
  transports[0]->send(1, ChannelKind::kGradient, message(1, 3, 0, 9));
  waiting.join();
  std::thread summing([&] { transports[1]->world().all_reduce(at::ones({2})).wait(); });
  EXPECT_TRUE(soon([&] {
    return transports[1]->waits() == "rank 1 waits in all_reduce of float32[2] for rank 0";
  }));
  transports[0]->world().all_reduce(at::ones({2})).wait();
  summing.join();
  EXPECT_EQ(transports[1]->waits(), "");
}

TEST_P(TransportConformance, RefusesRanksThatDoNotExist) {
  start(2);
  EXPECT_THROW(transports[0]->send(2, ChannelKind::kActivation, message(0, 0, 0)), Error);
  EXPECT_THROW(transports[0]->post_receive(-1, ChannelKind::kActivation, {0, 0, 1}, std::nullopt),
               Error);
}

TEST_P(TransportConformance, KeepsManyRanksApartUnderLoad) {
  constexpr int kRanks = 6, kCount = 150;
  start(kRanks);
  expect_no_errors(on_every_rank([](Transport& transport) {
    const int rank = transport.rank();
    for (int i = 0; i < kCount; ++i) {
      for (int other = 0; other < kRanks; ++other) {
        if (other != rank)
          transport.send(other, ChannelKind::kActivation, message(other, i, 100 * rank + i));
      }
      if (i % 7 == rank) std::this_thread::yield();
    }
    for (int i = 0; i < kCount; ++i) {
      for (int other = 0; other < kRanks; ++other) {
        if (other == rank) continue;
        const auto ticket =
            transport.post_receive(other, ChannelKind::kActivation, {rank, i, 1}, std::nullopt);
        EXPECT_EQ(value_of(transport.wait(ticket)), 100 * other + i);
      }
    }
  }));
}

}  // namespace sluice::test
