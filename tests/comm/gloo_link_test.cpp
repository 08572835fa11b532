// Behaviour specific to Gloo: strangers, failures, leftovers.
#include "comm/gloo_link.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <mutex>

#include "support/expect_error.h"
#include "support/gloo_processes.h"

namespace sluice::test {
namespace {

using Clock = std::chrono::steady_clock;
using Endpoints = std::vector<std::unique_ptr<Transport>>;

template <typename Condition>
bool soon(const Condition& condition) {
  const auto give_up = Clock::now() + std::chrono::seconds(5);
  while (!condition()) {
    if (Clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

double processor_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Message wait_for(Transport& transport, int source, ChannelKind kind, const MessageTag& tag) {
  return transport.wait(transport.post_receive(source, kind, tag, std::nullopt));
}

TEST(GlooLinkTest, AProcessThatDoesNotKnowTheSecretIsRefused) {
  const std::string message = message_of([] {
    gloo_processes(2, 2, {}, [](ProcessRanksOptions& process, GlooLinkOptions& link) {
      if (process.process == 1) link.secret = "a guess";
    });
  });
  EXPECT_NE(message.find("does not have the secret of the job"), std::string::npos) << message;
  EXPECT_NE(message.find("a foreign program may have taken the connection"), std::string::npos)
      << message;
}

TEST(GlooLinkTest, BigMessagesPassBothWaysAtOnce) {
  const Endpoints ends = gloo_processes(2, 2);
  constexpr std::int64_t kSize = 16 << 20;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      for (int i = 0; i < 3; ++i) {
        ends[rank]->send(1 - rank, ChannelKind::kActivation,
                         {{0, i, 1}, {at::full({kSize}, 10.0 * rank + i)}});
      }
      for (int i = 0; i < 3; ++i) {
        const Message got = wait_for(*ends[rank], 1 - rank, ChannelKind::kActivation, {0, i, 1});
        EXPECT_TRUE(got.tensors[0].eq(10.0 * (1 - rank) + i).all().item<bool>());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(GlooLinkTest, AnAbortReachesOtherProcessesWhileAPayloadIsOnItsWayAndLeavesNothingSpinning) {
  Endpoints ends = gloo_processes(2, 2);
  for (int i = 0; i < 4; ++i)
    ends[0]->send(1, ChannelKind::kActivation, {{0, i, 1}, {at::ones({16 << 20})}});
  std::thread waiting([&] {
    EXPECT_EQ(message_of([&] {
                wait_for(*ends[1], 0, ChannelKind::kGradient, {0, 0, 1});
              }),
              "rank 0 broke");
  });
  ends[0]->abort({0, ErrorKind::kNotFinite, "rank 0 broke"});
  waiting.join();
  EXPECT_EQ(ends[1]->failure()->kind, ErrorKind::kNotFinite);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // farewells have ended
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(processor_seconds() - before, 0.1);
  ends.clear();
}

TEST(GlooLinkTest, AFailureIsToldBeforeAnyWaitEndsAndACauseComesBeforeItsConsequence) {
  std::mutex mutex;
  std::vector<std::string> told;
  Endpoints ends = gloo_processes(3, 3, {}, [&](ProcessRanksOptions& process, GlooLinkOptions&) {
    process.on_failure = [&, n = process.process](const Failure& failure) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      const std::lock_guard lock(mutex);
      told.push_back(std::to_string(n) + ": " + failure.message);
    };
  });
  std::thread waiting([&] {
    EXPECT_EQ(message_of([&] {
                wait_for(*ends[2], 0, ChannelKind::kGradient, {0, 0, 1});
              }),
              "rank 1 broke");
    const std::lock_guard lock(mutex);
    EXPECT_NE(std::find(told.begin(), told.end(), "2: rank 1 broke"), told.end());
  });
  ends[1]->abort({1, ErrorKind::kInput, "rank 1 broke"});
  ends[1]->abort({1, ErrorKind::kInput, "something later"});
  waiting.join();
  EXPECT_TRUE(soon([&] {
    const std::lock_guard lock(mutex);
    return told.size() == 3;
  }));
}

TEST(GlooLinkTest, SendingToAProcessThatHasEndedIsNoFailure) {
  Endpoints ends = gloo_processes(3, 3);
  ends[0]->send(1, ChannelKind::kActivation, {{0, 0, 1}, {at::ones({500'000})}});
  ends[0].reset();
  EXPECT_EQ(wait_for(*ends[1], 0, ChannelKind::kActivation, {0, 0, 1}).tensors[0].numel(), 500'000);
  for (int i = 0; i < 20; ++i) {
    ends[1]->send(0, ChannelKind::kActivation, {{0, i, 1}, {at::ones({50'000})}});
    ends[2]->send(0, ChannelKind::kGradient, {{0, i, 1}, {at::ones({1})}});
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ends[1]->send(2, ChannelKind::kActivation, {{2, 0, 1}, {at::ones({3})}});
  wait_for(*ends[2], 1, ChannelKind::kActivation, {2, 0, 1});
  EXPECT_FALSE(ends[1]->failure());
  EXPECT_FALSE(ends[2]->failure());
}

TEST(GlooLinkTest, AGroupThatIsMadeLateGetsWhatCameEarly) {
  const Endpoints ends = gloo_processes(2, 2);
  std::thread early([&] {
    const Group pair = ends[0]->world().split(0);
    EXPECT_EQ(pair.all_gather("a").wait(), (std::vector<std::string>{"a", "b"}));
  });
  // For rank 0 the split itself completes as soon as rank 1 has joined it.
  const Group world = ends[1]->world();
  const Group pair = world.split(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(pair.all_gather("b").wait(), (std::vector<std::string>{"a", "b"}));
  early.join();
}

void set_up_and_tear_down(int times) {
  for (int i = 0; i < times; ++i) {
    const Endpoints ends = gloo_processes(2, 2);
    std::thread other([&] { ends[1]->world().barrier().wait(); });
    ends[0]->world().barrier().wait();
    other.join();
    if (i % 4 == 3) ends[0]->abort({0, ErrorKind::kInternal, "stop"});
  }
}
TEST(GlooLinkTest, IsSetUpAndTornDownTwentyTimes) { set_up_and_tear_down(20); }
TEST(SlowGlooLinkTest, IsSetUpAndTornDownTwoHundredTimes) { set_up_and_tear_down(200); }

}  // namespace
}  // namespace sluice::test
