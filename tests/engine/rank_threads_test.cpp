#include "engine/rank_threads.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <new>
#include <stdexcept>

#include "sluice/parts/observers.h"

namespace sluice {
namespace {

Error failure_of(const std::function<void(Transport&)>& fn) {
  const auto transports = make_local_transports(3);
  try {
    run_ranks(transports, 1, nullptr, fn);
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("no rank failed");
}

TEST(RankThreadsTest, EveryRankRunsOnceOnItsOwnThread) {
  const auto transports = make_local_transports(4);
  std::atomic<int> sum{0};
  run_ranks(transports, 1, nullptr, [&](Transport& transport) {
    transport.world().barrier().wait();  // returns only if all ranks run concurrently
    sum += 1 << transport.rank();
  });
  EXPECT_EQ(sum, 15);
}

TEST(RankThreadsTest, ARankHasTheThreadsThatItWasGiven) {
  for (int threads : {1, 2, 3}) {
    const auto transports = make_local_transports(2);
    run_ranks(transports, threads, nullptr, [&](Transport&) {
      EXPECT_EQ(at::get_num_threads(), threads);
      at::ones({100'000}).sum();
      EXPECT_EQ(at::get_num_threads(), threads);
    });
  }
  EXPECT_THROW(run_ranks(make_local_transports(2), 0, nullptr, [](Transport&) {}), Error);
  EXPECT_EQ(resolve_threads_per_rank(3, 64), 3);
  EXPECT_GE(resolve_threads_per_rank(0, 1), 1);
  EXPECT_EQ(resolve_threads_per_rank(0, 1 << 20), 1);
}

TEST(RankThreadsTest, TheFirstFailureWakesTheOthersAndIsTheOneThatIsReported) {
  const Error error = failure_of([](Transport& transport) {
    if (transport.rank() == 1)
      throw Error(ErrorKind::kInput,
                  {.what = "bad row", .where = "data.jsonl:7", .remedy = "mend it"});
    transport.world().barrier().wait();
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_STREQ(error.what(), "bad row; data.jsonl:7; mend it");
}

TEST(RankThreadsTest, OutOfMemoryIsKnownInEveryForm) {
  const Error small = failure_of([](Transport& transport) {
    if (transport.rank() == 1) throw std::bad_alloc();
    transport.world().barrier().wait();
  });
  EXPECT_EQ(small.kind(), ErrorKind::kMemory);
  EXPECT_EQ(std::string(small.what()).rfind("out of memory; rank 1; use more stages", 0), 0u)
      << small.what();
// sanitizers end the process instead of throwing
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const Error huge = failure_of([](Transport& transport) {
    if (transport.rank() == 2) at::empty({std::int64_t{1} << 60});
    transport.world().barrier().wait();
  });
  EXPECT_EQ(huge.kind(), ErrorKind::kMemory) << huge.what();
  EXPECT_EQ(std::string(huge.what())
                .rfind("out of memory: 4096.00PiB could not be allocated; rank 2; ", 0),
            0u)
      << huge.what();
#endif
}

TEST(RankThreadsTest, AnyOtherFailureIsInternalAndNamesTheRank) {
  const Error error = failure_of([](Transport& transport) {
    if (transport.rank() == 0) throw std::runtime_error("first\nsecond");
    transport.world().barrier().wait();
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInternal);
  EXPECT_STREQ(error.what(), "first; rank 0");
}

// sanitizers reserve address space
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void run_without_room_for_threads() {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlim_t bytes = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{40} << 20);
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_AS, &limit);
  const auto transports = make_local_transports(64);
  try {
    run_ranks(transports, 1, nullptr,
              [](Transport& transport) { transport.world().barrier().wait(); });
    std::exit(0);
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    std::exit(error.exit_code());
  }
}

TEST(RankThreadsDeathTest, AThreadThatCannotBeStartedStopsTheOthers) {
  EXPECT_EXIT(run_without_room_for_threads(), testing::ExitedWithCode(7),
              "cannot start the thread of rank [0-9]+: .*; raise `ulimit -u`");
}
#endif

TEST(RankThreadsTest, AllocationsOfAThreadCountForItsRank) {
  MemoryLedger ledger(2);
  const auto transports = make_local_transports(2);
  run_ranks(transports, 1, &ledger, [&](Transport& transport) {
    if (transport.rank() == 1) at::empty({1024});
    transport.world().barrier().wait();
  });
  EXPECT_EQ(ledger.peak_bytes(0), 0);
  EXPECT_EQ(ledger.peak_bytes(1), 4096);
}

}  // namespace
}  // namespace sluice
