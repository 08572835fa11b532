// Tests that every transport's groups must pass. Instantiate them with
//   INSTANTIATE_TEST_SUITE_P(Local, GroupConformance, ::testing::Values(&make_local_transports));
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "support/conformance_ranks.h"
#include "support/expect_error.h"

namespace sluice::test {

class GroupConformance : public ConformanceRanks {
 protected:
  std::vector<std::string> in_world(const std::function<void(const Group&)>& body) {
    return on_every_rank([&](Transport& transport) { body(transport.world()); });
  }
  // Numbers whose sum depends on the order of addition.
  static at::Tensor awkward(int rank, std::int64_t size, at::ScalarType dtype) {
    at::Tensor values = at::empty({size}, at::kDouble);
    for (std::int64_t i = 0; i < size; ++i) {
      values[i] = 1000 * std::sin(31.0 * rank + static_cast<double>(i));
    }
    return values.to(dtype);
  }
  static at::Tensor awkward_sum(int num_ranks, std::int64_t size, at::ScalarType dtype) {
    at::Tensor sum = awkward(0, size, dtype);
    for (int rank = 1; rank < num_ranks; ++rank) sum = sum + awkward(rank, size, dtype);
    return sum;
  }
  static bool same_bits(const at::Tensor& a, const at::Tensor& b) {
    return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
           (a.nbytes() == 0 ||
            std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
  }
};

TEST_P(GroupConformance, TheWorldIsAllRanks) {
  start(3);
  expect_no_errors(on_every_rank([](Transport& transport) {
    const Group world = transport.world();
    EXPECT_TRUE(world);
    EXPECT_EQ(world.rank(), transport.rank());
    EXPECT_EQ(world.size(), 3);
    EXPECT_EQ(world.members(), (std::vector<int>{0, 1, 2}));
  }));
}

TEST_P(GroupConformance, AllGatherGivesWhatEveryMemberGaveInTheirOrder) {
  start(3);
  expect_no_errors(in_world([](const Group& world) {
    for (int round = 0; round < 20; ++round) {
      const auto bytes = world
                             .all_gather(std::string(static_cast<std::size_t>(world.rank()), '\0') +
                                         std::to_string(round))
                             .wait();
      ASSERT_EQ(bytes.size(), 3u);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(bytes[i], std::string(i, '\0') + std::to_string(round));
      }
    }
    const std::vector<at::Tensor> given = {at::full({2, 3}, 7, at::kLong), at::Tensor(),
                                           at::empty({0, 5}, at::kBFloat16)};
    const auto tensors = world.all_gather(given[world.rank()]).wait();
    ASSERT_EQ(tensors.size(), 3u);
    EXPECT_TRUE(at::equal(tensors[0], given[0]));
    EXPECT_EQ(tensors[0].scalar_type(), at::kLong);
    EXPECT_FALSE(tensors[1].defined());
    EXPECT_EQ(tensors[2].sizes(), given[2].sizes());
    EXPECT_EQ(tensors[2].scalar_type(), at::kBFloat16);
  }));
}

TEST_P(GroupConformance, BroadcastGivesWhatTheRootGave) {
  start(3);
  expect_no_errors(in_world([](const Group& world) {
    for (int root = 0; root < 3; ++root) {
      const bool is_root = world.rank() == root;
      EXPECT_EQ(world.broadcast("from " + std::to_string(world.rank()), root).wait(),
                "from " + std::to_string(root));
      const at::Tensor tensor = is_root ? at::full({4}, root) : at::Tensor();
      EXPECT_TRUE(at::equal(world.broadcast(tensor, root).wait(), at::full({4}, root)));
    }
  }));
}

TEST_P(GroupConformance, AllToAllGivesEveryMemberItsPiece) {
  start(3);
  expect_no_errors(in_world([](const Group& world) {
    std::vector<at::Tensor> pieces;
    for (int to = 0; to < 3; ++to) pieces.push_back(at::full({to + 1}, 10 * world.rank() + to));
    if (world.rank() == 2) pieces[0] = at::Tensor();
    const auto got = world.all_to_all(pieces).wait();
    ASSERT_EQ(got.size(), 3u);
    for (int from = 0; from < 3; ++from) {
      const at::Tensor& piece = got[from];
      if (from == 2 && world.rank() == 0) {
        EXPECT_FALSE(piece.defined());
      } else {
        EXPECT_TRUE(at::equal(piece, at::full({world.rank() + 1}, 10 * from + world.rank())));
      }
    }
  }));
}

TEST_P(GroupConformance, AllReduceAddsInTheOrderOfTheMembersWhoeverComesFirst) {
  constexpr int kRanks = 4, kSize = 37;
  start(kRanks);
  expect_no_errors(in_world([](const Group& world) {
    for (int round = 0; round < 24; ++round) {
      for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
        if (round % kRanks == world.rank())
          std::this_thread::sleep_for(std::chrono::microseconds(300));
        const at::Tensor sum = world.all_reduce(awkward(world.rank(), kSize, dtype)).wait();
        EXPECT_TRUE(same_bits(sum, awkward_sum(kRanks, kSize, dtype))) << sum;
      }
    }
  }));
  // Check that the order matters for these numbers.
  const at::Tensor backwards = awkward(3, kSize, at::kFloat) + awkward(2, kSize, at::kFloat) +
                               awkward(1, kSize, at::kFloat) + awkward(0, kSize, at::kFloat);
  EXPECT_FALSE(same_bits(backwards, awkward_sum(kRanks, kSize, at::kFloat)));
}

// A tensor of this size may be summed in pieces.
TEST_P(GroupConformance, LargeAllReduceCompletesWithoutEveryRankWaiting) {
  constexpr int kRanks = 4;
  constexpr std::int64_t kSize = 100'003;
  std::vector<at::Tensor> given;
  for (int rank = 0; rank < kRanks; ++rank) {
    given.push_back(
        (at::arange(kSize, at::kDouble).add_(31.0 * rank).sin_().mul_(1000)).to(at::kFloat));
  }
  at::Tensor expected = given[0];
  for (int rank = 1; rank < kRanks; ++rank) expected = expected + given[rank];
  start(kRanks);
  expect_no_errors(in_world([&](const Group& world) {
    const at::Tensor& own = given[world.rank()];
    std::vector<Work<at::Tensor>> works;
    for (int i = 0; i < 3; ++i) works.push_back(world.all_reduce(own));
    if (world.rank() == 2) {
      std::swap(works[0], works[2]);
      works.pop_back();  // dropped without waiting
    }
    for (Work<at::Tensor>& work : works) EXPECT_TRUE(same_bits(work.wait(), expected));
    const at::Tensor folded = own.slice(0, 0, 100'000).view({400, 250});
    const at::Tensor sum = world.all_reduce(folded.t()).wait();
    EXPECT_EQ(sum.strides(), folded.t().strides());
    EXPECT_TRUE(at::equal(sum, expected.slice(0, 0, 100'000).view({400, 250}).t()));
    if (world.rank() == 1) {
      EXPECT_NE(message_of([&] {
                  world.all_reduce(at::ones({100'000}, at::kBool)).wait();
                }).find("cannot add up bool"),
                std::string::npos);
    } else {
      EXPECT_THROW(world.all_reduce(at::ones({100'000}, at::kBool)).wait(), Error);
    }
  }));
}

// A member may hold the sum of several terms. The result must not depend on the number of members.
TEST_P(GroupConformance, TreeSumIsIndependentOfNumberOfMembers) {
  constexpr int kRanks = 4;
  for (const std::int64_t size : {7, 100'003}) {
    std::vector<at::Tensor> terms;
    for (int i = 0; i < 2 * kRanks; ++i) terms.push_back(awkward(i, size, at::kFloat));
    const auto pair = [&](int i) { return terms[2 * i] + terms[2 * i + 1]; };
    const at::Tensor expected = (pair(0) + pair(1)) + (pair(2) + pair(3));
    start(kRanks);
    expect_no_errors(in_world([&](const Group& world) {
      const at::Tensor own = pair(world.rank());
      const at::Tensor sum = world.all_reduce(own, SumOrder::kTree).wait();
      EXPECT_TRUE(same_bits(sum, expected));
      const std::vector<at::Tensor> pieces = own.tensor_split(kRanks);
      const at::Tensor piece = world.reduce_scatter(pieces, SumOrder::kTree).wait();
      EXPECT_TRUE(same_bits(piece, expected.tensor_split(kRanks)[world.rank()]));
      const Group three = world.split(world.rank() < 3 ? 0 : 1);
      if (world.rank() == 3) return;
      EXPECT_TRUE(
          same_bits(three.all_reduce(own, SumOrder::kTree).wait(), pair(0) + (pair(1) + pair(2))));
    }));
    EXPECT_FALSE(same_bits(expected, ((pair(0) + pair(1)) + pair(2)) + pair(3)));
  }
}

TEST_P(GroupConformance, AnotherOrderOfASumIsAnotherCall) {
  start(2);
  for (const std::string& error : in_world([](const Group& world) {
         const auto order = world.rank() == 0 ? SumOrder::kMembers : SumOrder::kTree;
         world.all_reduce(at::ones({3}), order).wait();
       })) {
    EXPECT_NE(error.find("all_reduce of float32[3] in a tree on rank 1"), std::string::npos)
        << error;
  }
}

TEST_P(GroupConformance, DifferentLargeSumsAreAnErrorOnEveryMember) {
  start(3);
  for (const std::string& error : in_world([](const Group& world) {
         world.all_reduce(at::ones({world.rank() == 2 ? 70'000 : 80'000})).wait();
       })) {
    EXPECT_NE(error.find("all_reduce of float32[80000] on ranks 0, 1, but all_reduce of "
                         "float32[70000] on rank 2"),
              std::string::npos)
        << error;
  }
}

TEST_P(GroupConformance, ReduceScatterGivesTheBitsOfAllReduce) {
  constexpr int kRanks = 3;
  start(kRanks);
  expect_no_errors(in_world([](const Group& world) {
    const at::Tensor whole = awkward(world.rank(), 20, at::kFloat);
    const std::vector<at::Tensor> pieces = whole.split_with_sizes({13, 0, 7});
    const at::Tensor own = world.reduce_scatter(pieces).wait();
    const at::Tensor all = world.all_reduce(whole).wait();
    EXPECT_TRUE(same_bits(own, all.split_with_sizes({13, 0, 7})[world.rank()].contiguous()));
  }));
}

TEST_P(GroupConformance, ASumIsInMemoryOfItsOwn) {
  start(3);
  expect_no_errors(in_world([](const Group& world) {
    at::Tensor given = at::ones({4});
    given.set_requires_grad(true);
    at::Tensor sum = world.all_reduce(given).wait();
    EXPECT_FALSE(sum.requires_grad());
    sum.mul_(world.rank() + 2);
    world.barrier().wait();
    EXPECT_TRUE(at::equal(sum, at::full({4}, 3.0 * (world.rank() + 2))));
    EXPECT_TRUE(at::equal(given.detach(), at::ones({4})));
  }));
}

TEST_P(GroupConformance, AddsEmptyTensorsAndScalars) {
  start(2);
  expect_no_errors(in_world([](const Group& world) {
    EXPECT_EQ(world.all_reduce(at::empty({0, 3})).wait().sizes(),
              (std::vector<std::int64_t>{0, 3}));
    EXPECT_EQ(world.all_reduce(at::scalar_tensor(1.5)).wait().item<double>(), 3.0);
  }));
}

TEST_P(GroupConformance, BarrierHoldsUntilEverybodyIsThere) {
  start(4);
  std::atomic<int> arrived{0};
  expect_no_errors(in_world([&](const Group& world) {
    for (int round = 1; round <= 50; ++round) {
      ++arrived;
      world.barrier().wait();
      EXPECT_GE(arrived.load(), 4 * round);
      world.barrier().wait();
    }
  }));
}

TEST_P(GroupConformance, WorksMayBeWaitedForInAnyOrder) {
  constexpr int kRanks = 3, kWorks = 5;
  start(kRanks);
  expect_no_errors(in_world([](const Group& world) {
    std::vector<Work<at::Tensor>> sums;
    std::vector<Work<std::vector<std::string>>> texts;
    for (int i = 0; i < kWorks; ++i) {
      sums.push_back(world.all_reduce(at::full({2}, 10 * i + world.rank())));
      texts.push_back(world.all_gather(std::to_string(i)));
    }
    for (int k = 0; k < kWorks; ++k) {
      const int i = (k * (world.rank() + 1) + world.rank()) % kWorks;
      EXPECT_EQ(texts[i].wait(), std::vector<std::string>(kRanks, std::to_string(i)));
      EXPECT_EQ(sums[kWorks - 1 - i].wait()[0].item<double>(), 30 * (kWorks - 1 - i) + 3);
    }
  }));
}

TEST_P(GroupConformance, AMemberWhoseWorkIsDroppedHasTakenPart) {
  start(2);
  expect_no_errors(in_world([](const Group& world) {
    {
      Work<at::Tensor> sum = world.all_reduce(at::ones({1}));
      if (world.rank() == 0) {
        EXPECT_EQ(sum.wait().item<double>(), 2);
      }
    }
    world.barrier().wait();
  }));
}

TEST_P(GroupConformance, AWorkIsWaitedForOnce) {
  start(1);
  Work<void> work = transports[0]->world().barrier();
  work.wait();
  EXPECT_NE(message_of([&] { work.wait(); }).find("waited for twice"), std::string::npos);
}

TEST_P(GroupConformance, AGroupOfOneNeedsNobody) {
  start(2);
  expect_no_errors(in_world([](const Group& world) {
    const Group alone = world.split(world.rank());
    ASSERT_EQ(alone.members(), std::vector<int>{world.rank()});
    EXPECT_EQ(alone.rank(), 0);
    if (world.rank() == 1) return;  // the other rank takes no part in the rest
    alone.barrier().wait();
    EXPECT_EQ(alone.all_gather("x").wait(), std::vector<std::string>{"x"});
    EXPECT_EQ(alone.broadcast("y", 0).wait(), "y");
    EXPECT_EQ(alone.all_to_all({at::ones({1})}).wait().size(), 1u);
    const at::Tensor given = at::ones({3});
    at::Tensor sum = alone.all_reduce(given).wait();
    sum.add_(1);
    EXPECT_TRUE(at::equal(given, at::ones({3})));
    EXPECT_TRUE(at::equal(alone.reduce_scatter({given}).wait(), given));
    EXPECT_TRUE(alone.split(0));
  }));
}

TEST_P(GroupConformance, SplitsByColorAndLeavesOutWhoHasNone) {
  start(5);
  expect_no_errors(in_world([](const Group& world) {
    const int rank = world.rank();
    const Group part = world.split(rank == 4 ? -1 : rank % 2);
    EXPECT_EQ(static_cast<bool>(part), rank != 4);
    if (rank == 4) return;
    EXPECT_EQ(part.members(), (std::vector<int>{rank % 2, rank % 2 + 2}));
    EXPECT_EQ(part.rank(), rank / 2);
    const auto ranks = part.all_gather(std::to_string(rank)).wait();
    EXPECT_EQ(ranks, (std::vector<std::string>{std::to_string(part.members()[0]),
                                               std::to_string(part.members()[1])}));
    EXPECT_EQ(part.broadcast("from " + std::to_string(rank), 1).wait(),
              "from " + std::to_string(rank % 2 + 2));
  }));
}

TEST_P(GroupConformance, GroupsOfTheSameMembersAreKeptApart) {
  start(2);
  expect_no_errors(in_world([](const Group& world) {
    const Group one = world.split(0), two = world.split(0), inner = two.split(0);
    std::vector<const Group*> groups = {&one, &two, &inner, &world};
    if (world.rank() == 1) std::reverse(groups.begin(), groups.end());
    std::vector<std::pair<std::string, Work<std::vector<std::string>>>> works;
    for (const Group* group : groups) {  // each member uses a different order
      const std::string name = group == &one     ? "one"
                               : group == &two   ? "two"
                               : group == &inner ? "inner"
                                                 : "world";
      works.emplace_back(name, group->all_gather(name));
    }
    for (auto& [name, work] : works) EXPECT_EQ(work.wait(), std::vector<std::string>(2, name));
  }));
}

TEST_P(GroupConformance, ADifferentCallIsAnErrorOnEveryMemberThatNamesTheRanks) {
  const auto other_shape = [](const Group& world) {
    world.all_reduce(at::ones({world.rank() == 2 ? 4 : 3})).wait();
  };
  const auto other_dtype = [](const Group& world) {
    world.all_reduce(at::ones({3}, world.rank() == 2 ? at::kDouble : at::kFloat)).wait();
  };
  const auto other_piece = [](const Group& world) {
    std::vector<at::Tensor> pieces(3, at::ones({3}));
    if (world.rank() == 2) pieces[1] = at::ones({2});
    world.reduce_scatter(pieces).wait();
  };
  const auto other_root = [](const Group& world) {
    world.broadcast("x", world.rank() == 2 ? 1 : 0).wait();
  };
  const auto other_collective = [](const Group& world) {
    if (world.rank() == 2) {
      world.barrier().wait();
    } else {
      world.all_gather(at::ones({1})).wait();
    }
  };
  const std::vector<std::pair<std::function<void(const Group&)>, std::string>> cases = {
      {other_shape,
       "all_reduce of float32[3] on ranks 0, 1, but all_reduce of float32[4] on rank 2"},
      {other_dtype,
       "all_reduce of float32[3] on ranks 0, 1, but all_reduce of float64[3] on rank 2"},
      {other_piece, "but reduce_scatter of float32[3], float32[2], float32[3] on rank 2"},
      {other_root,
       "broadcast of bytes from rank 0 on ranks 0, 1, but broadcast of bytes from rank 1 on rank "
       "2"},
      {other_collective, "all_gather of tensors on ranks 0, 1, but barrier on rank 2"}};
  for (const auto& [body, expected] : cases) {
    start(3);
    for (const std::string& error : in_world(body)) {
      EXPECT_NE(error.find(expected), std::string::npos) << error;
    }
  }
}

TEST_P(GroupConformance, RefusesWhatHasNoMeaning) {
  start(1);
  const Group world = transports[0]->world();
  EXPECT_NE(message_of([&] {
              world.all_reduce(at::ones({2}, at::kBool)).wait();
            }).find("cannot add up bool[2]"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              world.all_reduce(at::Tensor()).wait();
            }).find("cannot add up an undefined tensor"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              world.all_to_all({}).wait();
            }).find("all_to_all of 0 pieces does not match a group of 1 member; rank 0"),
            std::string::npos);
  EXPECT_THROW(world.reduce_scatter({at::ones({1}), at::ones({1})}).wait(), Error);
  EXPECT_NE(message_of([&] { world.broadcast("x", 1).wait(); }).find("no member 1"),
            std::string::npos);
  EXPECT_THROW(world.broadcast(at::ones({1}), -1).wait(), Error);
  EXPECT_NE(message_of([] { Group().barrier().wait(); }).find("not a member"), std::string::npos);
}

TEST_P(GroupConformance, NamesTheRanksThatAreMissingAtTheDeadline) {
  start(4, std::chrono::milliseconds(60));
  const auto errors = in_world([](const Group& world) {
    const Group three = world.split(world.rank() == 0 ? -1 : 0);
    if (world.rank() == 3) three.all_reduce(at::ones({2})).wait();
  });
  EXPECT_EQ(errors[3],
            "only 1 of 3 ranks reached a collective within 60 ms; rank 3 waits in all_reduce of "
            "float32[2] for rank 1, rank 2; look at what rank 1 is doing");
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(errors[rank], "");
}

TEST_P(GroupConformance, AbortEndsEveryWaitInEveryGroup) {
  start(4);
  const auto errors = on_every_rank([](Transport& transport) {
    const Group world = transport.world();
    const Group pair = world.split(transport.rank() / 2), inner = pair.split(0);
    Work<at::Tensor> complete = world.all_reduce(at::ones({1}));
    world.barrier().wait();
    switch (transport.rank()) {
      case 0:
        inner.barrier().wait();
        break;
      case 1:
        world.all_gather("x").wait();
        break;
      case 2:
        pair.all_reduce(at::ones({1})).wait();
        break;
      default:
        transport.abort({3, ErrorKind::kInput, "rank 3 broke"});
        EXPECT_EQ(message_of([&] { complete.wait(); }), "rank 3 broke");
        EXPECT_EQ(message_of([&] { inner.barrier().wait(); }), "rank 3 broke");
        pair.all_gather("x").wait();
    }
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "rank 3 broke");
}

TEST_P(GroupConformance, AbortDropsWhatWasGiven) {
  start(2);
  at::Tensor tensor = at::ones({3});
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage(tensor.storage().getWeakStorageImpl());
  const auto work = transports[0]->world().all_gather(tensor);
  tensor.reset();
  transports[1]->abort({1, ErrorKind::kInternal, "stop"});
  EXPECT_TRUE(soon([&] { return storage.expired(); }));
}

TEST_P(GroupConformance, KeepsNothingThatEveryMemberHasTaken) {
  start(2);
  at::Tensor tensor = at::ones({3});
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage(tensor.storage().getWeakStorageImpl());
  auto first = transports[0]->world().all_reduce(tensor);
  tensor.reset();
  auto second = transports[1]->world().all_reduce(at::ones({3}));
  first.wait();
  second.wait();
  EXPECT_TRUE(soon([&] { return storage.expired(); }));
}

TEST_P(GroupConformance, KeepsManyGroupsApartUnderLoad) {
  start(6);
  expect_no_errors(in_world([](const Group& world) {
    const int row = world.rank() / 3, column = world.rank() % 3;
    const Group along_row = world.split(row), along_column = world.split(column);
    for (int round = 0; round < 100; ++round) {
      auto row_sum = along_row.all_reduce(at::full({3}, round + world.rank(), at::kLong));
      auto column_ranks = along_column.all_gather(std::to_string(round + world.rank()));
      auto root = world.broadcast(std::to_string(world.rank() * round), round % 6);
      if (round % 6 == world.rank()) std::this_thread::yield();
      EXPECT_EQ(root.wait(), std::to_string((round % 6) * round));
      EXPECT_EQ(column_ranks.wait(),
                (std::vector<std::string>{std::to_string(round + column),
                                          std::to_string(round + column + 3)}));
      EXPECT_EQ(row_sum.wait()[2].item<std::int64_t>(), 3 * (round + 3 * row) + 3);
    }
  }));
}

}  // namespace sluice::test
