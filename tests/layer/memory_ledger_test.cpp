#include "sluice/parts/observers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <thread>

namespace sluice {
namespace {

constexpr std::int64_t kBytes = 1 << 20;

at::Tensor one_mebibyte() { return at::empty({kBytes / 4}); }

void on_rank(MemoryLedger& ledger, int rank, const std::function<void()>& body) {
  std::thread([&] {
    const MemoryLedger::Scope scope(ledger, rank);
    body();
  }).join();
}

TEST(MemoryLedgerTest, CountsWhatAThreadAllocatesAndFrees) {
  MemoryLedger ledger(2);
  on_rank(ledger, 1, [&] {
    const at::Tensor kept = one_mebibyte();
    { const at::Tensor gone = one_mebibyte(); }
    EXPECT_EQ(ledger.live_bytes(1), kBytes);
    EXPECT_EQ(ledger.peak_bytes(1), 2 * kBytes);
    ledger.reset_peak(1);
    EXPECT_EQ(ledger.peak_bytes(1), kBytes);
  });
  EXPECT_EQ(ledger.live_bytes(1), 0);
  EXPECT_EQ(ledger.peak_bytes(0), 0);
}

TEST(MemoryLedgerTest, OtherThreadsAreNotCounted) {
  MemoryLedger ledger(1);
  on_rank(ledger, 0, [&] { std::thread([] { one_mebibyte().fill_(1); }).join(); });
  EXPECT_EQ(ledger.peak_bytes(0), 0);
}

TEST(MemoryLedgerTest, AHandedOverTensorIsItsReceiversUntilAnybodyFreesIt) {
  MemoryLedger ledger(2);
  at::Tensor message;
  on_rank(ledger, 0, [&] { message = one_mebibyte(); });
  EXPECT_EQ(ledger.live_bytes(0), kBytes);
  on_rank(ledger, 1, [&] {
    ledger.transfer(message.storage().data(), 1);
    EXPECT_EQ(ledger.live_bytes(0), 0);
    EXPECT_EQ(ledger.live_bytes(1), kBytes);
  });
  on_rank(ledger, 0, [&] { message.reset(); });
  EXPECT_EQ(ledger.live_bytes(0), 0);
  EXPECT_EQ(ledger.live_bytes(1), 0);
  EXPECT_EQ(ledger.peak_bytes(1), kBytes);
}

TEST(MemoryLedgerTest, TransferOfAnUnknownAddressChangesNothing) {
  MemoryLedger ledger(1);
  const at::Tensor outside = one_mebibyte();
  ledger.transfer(outside.storage().data(), 0);
  EXPECT_EQ(ledger.live_bytes(0), 0);
}

TEST(MemoryLedgerTest, MemoryFreedOutsideEveryScopeIsForgottenWhenItsAddressComesBack) {
  MemoryLedger ledger(1);
  std::set<const void*> addresses;
  for (int i = 0; i < 8; ++i) {
    at::Tensor tensor;
    on_rank(ledger, 0, [&] { tensor = one_mebibyte(); });
    addresses.insert(tensor.storage().data());
    tensor.reset();
  }
  EXPECT_EQ(ledger.live_bytes(0), static_cast<std::int64_t>(addresses.size()) * kBytes);
}

TEST(MemoryLedgerTest, BackwardOfOneRankCountsForThatRank) {
  MemoryLedger ledger(2);
  on_rank(ledger, 1, [&] {
    at::Tensor w = one_mebibyte().fill_(0.5).requires_grad_();
    ledger.reset_peak(1);
    w.mul(2).sum().backward();
    EXPECT_EQ(w.grad().numel(), w.numel());
    EXPECT_EQ(ledger.live_bytes(1), 2 * kBytes);
  });
  EXPECT_EQ(ledger.peak_bytes(0), 0);
}

}  // namespace
}  // namespace sluice
