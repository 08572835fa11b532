#include "job/control_line.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>

#include "support.h"

namespace sluice {
namespace {

using testing::Clock;
using testing::eventually;
using testing::kLong;
using testing::kSecret;
using testing::milliseconds;
using testing::server_options;
using testing::since;

ControlLineOptions options_of(int process, milliseconds heartbeat = milliseconds(5000)) {
  ControlLineOptions options;
  options.process = process;
  options.name = "process " + std::to_string(process);
  options.ranks = {process};
  options.heartbeat = heartbeat;
  options.connect_timeout = kLong;
  return options;
}

class ControlLineTest : public ::testing::Test {
 protected:
  std::unique_ptr<ControlLine> line(ControlLineOptions options) {
    return std::make_unique<ControlLine>(server_->address(), kSecret, std::move(options));
  }
  std::unique_ptr<ControlLine> line(int process) { return line(options_of(process)); }

  std::unique_ptr<StoreServer> server_ = std::make_unique<StoreServer>(server_options());
};

// A control line in its own process. The process is forked before this one has threads and gets the
// server's port later.
class OtherProcess {
 public:
  explicit OtherProcess(const ControlLineOptions& options) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      int port = 0;
      if (::read(ends[0], &port, sizeof port) != static_cast<ssize_t>(sizeof port)) ::_exit(1);
      const ControlLine own({"127.0.0.1", port}, kSecret, options);
      for (;;) ::pause();
    }
    ::close(ends[0]);
    tell_ = ends[1];
  }
  ~OtherProcess() {
    end(SIGKILL);
    ::close(tell_);
  }
  void join(const StoreAddress& address) const {
    EXPECT_EQ(::write(tell_, &address.port, sizeof address.port),
              static_cast<ssize_t>(sizeof address.port));
  }
  void send(int signal) const { ::kill(pid_, signal); }
  void end(int signal) {
    if (pid_ <= 0) return;
    ::kill(pid_, signal);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  int tell_ = -1;
};

TEST_F(ControlLineTest, TellsAllOfTheFirstFailureOnce) {
  std::atomic<int> heard{0};
  ControlLineOptions counting = options_of(0);
  counting.on_failure = [&](const JobFailure&) { ++heard; };
  const auto first = line(counting), second = line(1);
  const JobFailure failure{.process = 9,
                           .rank = 5,
                           .kind = ErrorKind::kNotFinite,
                           .message = "the loss is not finite; rank 5",
                           .teller = 7};
  second->report(failure);
  for (ControlLine* hearing : {first.get(), second.get()}) {
    const auto told = hearing->wait_for_failure(kLong);
    ASSERT_TRUE(told);
    EXPECT_EQ(told->process, 1) << "whoever reports it";
    EXPECT_EQ(told->rank, 5);
    EXPECT_EQ(told->kind, ErrorKind::kNotFinite);
    EXPECT_EQ(told->message, failure.message);
    EXPECT_EQ(told->teller, 1) << "it lives, and knows best";
  }
  first->report({.message = "another"});
  second->report({.message = "another"});
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(first->wait_for_failure(milliseconds(0))->message, failure.message);
  EXPECT_EQ(heard, 1);
  first->finish();
  second->finish();
  EXPECT_EQ(server_->failure()->message, failure.message);
}

TEST_F(ControlLineTest, TellsThoseThatComeLater) {
  const auto early = line(0);
  server_->report({.process = -1, .kind = ErrorKind::kUsage, .message = "no such model"});
  ASSERT_TRUE(early->wait_for_failure(kLong));
  EXPECT_EQ(early->wait_for_failure(kLong)->teller, 0);
  std::atomic<bool> heard{false};
  ControlLineOptions late = options_of(1);
  late.on_failure = [&](const JobFailure& failure) { heard = failure.message == "no such model"; };
  const auto later = line(late);
  ASSERT_TRUE(later->wait_for_failure(kLong));
  EXPECT_TRUE(eventually([&] { return heard.load(); }));
}

TEST_F(ControlLineTest, WaitsForAFailureNoLongerThanTold) {
  const auto own = line(0);
  const auto begin = Clock::now();
  EXPECT_FALSE(own->wait_for_failure(milliseconds(100)));
  EXPECT_GE(since(begin), milliseconds(100));
  own->finish();
  EXPECT_FALSE(own->wait_for_failure(kLong)) << "who has finished hears nothing more";
  EXPECT_LT(since(begin), kLong / 2);
}

TEST_F(ControlLineTest, AnEndWithoutFinishIsNamedWithThoseThatWait) {
  ControlLineOptions waiting = options_of(0);
  std::atomic<bool> waits{false};
  waiting.status = [&] {
    return waits ? std::string("rank 0 waits for 1RECV_B3 of step 4 from rank 1") : std::string();
  };
  const auto first = line(waiting);
  auto second = line(1);
  waits = true;  // possibly after the last heartbeat
  second.reset();
  const auto told = first->wait_for_failure(kLong);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->process, 1);
  EXPECT_EQ(told->kind, ErrorKind::kPeer);
  EXPECT_EQ(told->teller, 0);
  EXPECT_EQ(told->message,
            "process 1 is lost: its connection ended; rank 0 waits for 1RECV_B3 of step 4 from "
            "rank 1; check its last output and whether the system ended it (out of memory)");
}

TEST_F(ControlLineTest, AKilledProcessIsNamedByItsConnectionBeforeTheHeartbeat) {
  server_.reset();
  OtherProcess other(options_of(1));
  server_ = std::make_unique<StoreServer>(server_options());
  other.join(server_->address());
  const auto own = line(0);
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_FALSE(own->wait_for_failure(milliseconds(0)));
  other.end(SIGKILL);
  const auto told = own->wait_for_failure(kLong);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->process, 1);
  EXPECT_TRUE(told->message.starts_with("process 1 is lost: its connection ended"))
      << told->message;
}

TEST_F(ControlLineTest, AStoppedProcessIsNamedAfterTheHeartbeat) {
  server_.reset();
  OtherProcess other(options_of(1, milliseconds(1000)));
  server_ = std::make_unique<StoreServer>(server_options());
  other.join(server_->address());
  const auto own = line(options_of(0, milliseconds(1000)));
  std::this_thread::sleep_for(milliseconds(1500));
  EXPECT_FALSE(own->wait_for_failure(milliseconds(0))) << "it lives";
  const auto begin = Clock::now();
  other.send(SIGSTOP);
  const auto told = own->wait_for_failure(kLong);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->process, 1);
  EXPECT_TRUE(
      told->message.starts_with("process 1 is lost: it has been silent for more than 1 s; "))
      << told->message;
  EXPECT_GE(since(begin), milliseconds(700));
}

TEST_F(ControlLineTest, WhatIsReportedAsAConsequenceOfAnEndIsLeftOut) {
  StoreServerOptions options = server_options();
  options.grace = milliseconds(500);
  server_ = std::make_unique<StoreServer>(options);
  const auto first = line(0);
  auto second = line(1);
  second.reset();
  std::this_thread::sleep_for(milliseconds(100));
  first->report({.kind = ErrorKind::kPeer, .message = "connection closed by peer"});
  std::this_thread::sleep_for(milliseconds(50));
  server_->report_end(1, "was ended by signal 9 (Killed)");
  const auto told = first->wait_for_failure(kLong);
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->message.starts_with("process 1 was ended by signal 9 (Killed); "))
      << told->message;
}

TEST_F(ControlLineTest, WhoFinishesIsNoFailure) {
  const auto first = line(0);
  auto second = line(1);
  second->finish();
  server_->report_end(1, "ended with exit code 0");
  second.reset();
  EXPECT_FALSE(first->wait_for_failure(milliseconds(600)));
  EXPECT_FALSE(server_->wait_for_lines(milliseconds(50)));
  first->finish();
  EXPECT_TRUE(server_->wait_for_lines(kLong));
  EXPECT_FALSE(server_->failure());
}

TEST_F(ControlLineTest, AServerThatEndsWellIsNoFailure) {
  const auto own = line(0);
  server_.reset();
  EXPECT_FALSE(own->wait_for_failure(milliseconds(500)));
  own->finish();
}

TEST_F(ControlLineTest, AFailureIsToldBeforeTheServerEnds) {
  const auto own = line(0);
  server_->report({.process = 1, .message = "the cause"});
  server_.reset();
  const auto told = own->wait_for_failure(kLong);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->message, "the cause");
}

// A server in its own process. It sends its port through a pipe.
class OtherServer {
 public:
  OtherServer() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      StoreServerOptions options = server_options();
      options.process = 0;
      options.name = "process 0, pid 4711 on node7";
      const StoreServer server(options);
      const int port = server.address().port;
      if (::write(ends[1], &port, sizeof port) < 0) ::_exit(1);
      for (;;) ::pause();
    }
    int port = 0;
    EXPECT_EQ(::read(ends[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
    ::close(ends[0]);
    ::close(ends[1]);
    address = {"127.0.0.1", port};
  }
  ~OtherServer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void send(int signal) const { ::kill(pid_, signal); }
  StoreAddress address;

 private:
  pid_t pid_ = 0;
};

TEST(ControlLineServerTest, AKilledServerIsNamedByAllThatLostIt) {
  OtherServer server;
  ControlLineOptions waiting = options_of(1);
  waiting.status = [] { return std::string("rank 1 waits for 0RECV_F0 from rank 0"); };
  ControlLine first(server.address, kSecret, waiting),
      second(server.address, kSecret, options_of(2));
  // until a heartbeat has named the reporting process
  std::this_thread::sleep_for(milliseconds(1200));
  server.send(SIGKILL);
  const auto told = first.wait_for_failure(kLong), also = second.wait_for_failure(kLong);
  ASSERT_TRUE(told && also);
  EXPECT_EQ(told->process, 0);
  EXPECT_TRUE(
      told->message.starts_with("process 0, pid 4711 on node7 is lost: its connection ended; "
                                "rank 1 waits for 0RECV_F0 from rank 0; "))
      << told->message;
  EXPECT_EQ(told->teller, 1);
  EXPECT_EQ(also->teller, 1);
}

TEST(ControlLineServerTest, AStoppedServerIsNamedAfterTheHeartbeat) {
  OtherServer server;
  ControlLine own(server.address, kSecret, options_of(1, milliseconds(1000)));
  std::this_thread::sleep_for(milliseconds(1500));
  EXPECT_FALSE(own.wait_for_failure(milliseconds(0)));
  server.send(SIGSTOP);
  const auto told = own.wait_for_failure(kLong);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->process, 0);
}

// All processes are stopped for longer than the heartbeat, as by Ctrl-Z, and continue one by one.
TEST(ControlLineServerTest, TimeWhileServerIsStoppedDoesNotCount) {
  OtherServer server;
  const ControlLineOptions options = options_of(2, milliseconds(800));
  OtherProcess first(options_of(1, milliseconds(800))), second(options);
  first.join(server.address);
  second.join(server.address);
  ControlLine own(server.address, kSecret, options_of(3, milliseconds(30'000)));
  std::this_thread::sleep_for(milliseconds(500));
  server.send(SIGSTOP);
  first.send(SIGSTOP);
  second.send(SIGSTOP);
  std::this_thread::sleep_for(milliseconds(2500));
  server.send(SIGCONT);
  std::this_thread::sleep_for(milliseconds(50));
  first.send(SIGCONT);
  second.send(SIGCONT);
  const auto told = own.wait_for_failure(milliseconds(2500));
  EXPECT_FALSE(told) << told->message;
}

TEST_F(ControlLineTest, TwoOfTheSameNumberAreToldApart) {
  const auto first = line(1);
  ControlLineOptions twin = options_of(1);
  twin.name = "process 1, its twin";
  const auto second = line(twin);
  const auto told = second->wait_for_failure(kLong);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->kind, ErrorKind::kUsage);
  EXPECT_NE(told->message.find("process 1, its twin"), std::string::npos);
  ASSERT_TRUE(first->wait_for_failure(kLong));
}

TEST_F(ControlLineTest, ThirtyLinesStartAndEndWithoutTrouble) {
  for (int round = 0; round < 5; ++round) {
    std::vector<std::unique_ptr<ControlLine>> lines;
    for (int process = 0; process < 30; ++process) lines.push_back(line(process));
    for (const auto& own : lines) own->finish();
  }
  EXPECT_TRUE(server_->wait_for_lines(kLong));
  EXPECT_FALSE(server_->failure());
}

TEST_F(ControlLineTest, ARankThatHangsIsToldByOneProcessWithWhoWaitsForIt) {
  std::atomic<int> warned{0};
  std::string warning;
  ControlLineOptions first = options_of(0), second = options_of(1);
  first.status = [] { return "rank 0 waits for 0RECV_B0 of step 3 from rank 1"; };
  first.on_warning = [&](const std::string& text) {
    warning = text;
    ++warned;
  };
  second.on_warning = [&](const std::string&) { ++warned; };
  const auto a = line(first), b = line(second);
  std::this_thread::sleep_for(milliseconds(100));
  b->report_hung(1, "rank 1 hangs", "look at what it does");
  ASSERT_TRUE(eventually([&] { return warned == 1; }));
  EXPECT_EQ(warning,
            "rank 1 hangs; rank 0 waits for 0RECV_B0 of step 3 from rank 1; look at what it does");
  EXPECT_FALSE(server_->failure()) << "the run waits on";
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(warned, 1);
}

TEST(ControlLineServerTest, WhereTheServersMachineIsLostOneOfTheOthersMachineTellsIt) {
  OtherServer server;
  ControlLineOptions here = options_of(3);
  here.first_here = here.num_here = 2;
  const ControlLine there(server.address, kSecret, options_of(1));
  ControlLine own(server.address, kSecret, here);
  // until a heartbeat has named the reporting process
  std::this_thread::sleep_for(milliseconds(1200));
  server.send(SIGKILL);
  const auto told = own.wait_for_failure(kLong);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->teller, 2);
  EXPECT_TRUE(own.has_lost_server());
}

}  // namespace
}  // namespace sluice
