#include "sluice/parts/transport.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "comm/process_transports.h"
#include "job/sha256.h"
#include "job/store_server.h"
#include "support/expect_error.h"

namespace sluice::test {
namespace {

using Clock = std::chrono::steady_clock;

class ProcessTransportsTest : public ::testing::Test {
 protected:
  struct Child {
    pid_t pid = -1;
    int output = -1;
    std::string text;
    int status = 0;
  };

  ~ProcessTransportsTest() override {
    for (Child& child : children) {
      if (child.pid > 0) kill(child.pid, SIGKILL), waitpid(child.pid, nullptr, 0);
      if (child.output >= 0) close(child.output);
    }
  }

  void start(int num_processes, int ranks_each, const std::string& what) {
    for (int process = 0; process < num_processes; ++process) {
      const std::vector<std::string> words = {SLUICE_RANK_PROCESS,
                                              std::to_string(server.address().port),
                                              secret,
                                              std::to_string(process),
                                              std::to_string(num_processes),
                                              std::to_string(ranks_each),
                                              what};
      std::vector<char*> arguments;
      for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
      arguments.push_back(nullptr);
      int ends[2];
      ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
      const pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execv(arguments[0], arguments.data());
        _exit(127);
      }
      close(ends[1]);
      children.push_back({pid, ends[0], {}, 0});
    }
  }
  // Reads until the child prints `word` or ends.
  static bool read_until(Child& child, const std::string& word) {
    char buffer[256];
    while (child.text.find(word) == std::string::npos) {
      const ssize_t got = read(child.output, buffer, sizeof buffer);
      if (got <= 0) return false;
      child.text.append(buffer, static_cast<std::size_t>(got));
    }
    return true;
  }
  static void finish(Child& child) {
    read_until(child, "\0never");
    char buffer[256];
    for (ssize_t got = 0; (got = read(child.output, buffer, sizeof buffer)) > 0;)
      child.text.append(buffer, static_cast<std::size_t>(got));
    waitpid(child.pid, &child.status, 0);
    child.pid = -1;
  }

  const std::string secret = random_secret();
  StoreServer server{{.secret = secret}};
  std::vector<Child> children;
};

TEST_F(ProcessTransportsTest, RanksInProcessesExchangeMessagesAndSums) {
  start(2, 2, "exchange");
  for (Child& child : children) {
    finish(child);
    EXPECT_EQ(child.status, 0) << child.text;
    EXPECT_EQ(child.text, "connected\ndone\n");
  }
}

TEST_F(ProcessTransportsTest, AProcessThatEndsEarlyDoesNotFailTheOthers) {
  start(3, 1, "linger");
  for (Child& child : children) {
    finish(child);
    EXPECT_EQ(child.status, 0) << child.text;
  }
}

TEST_F(ProcessTransportsTest, TheOthersEndWhenOneIsKilledAndNameIt) {
  start(3, 2, "wait");
  for (Child& child : children) ASSERT_TRUE(read_until(child, "connected"));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(children[1].pid, SIGKILL);
  const auto killed = Clock::now();
  for (const int process : {0, 2}) {
    finish(children[process]);
    EXPECT_EQ(children[process].status, 5 << 8);  // it exited and no signal killed it
    EXPECT_NE(children[process].text.find("lost the connection to process 1 (ranks 2, 3)"),
              std::string::npos)
        << children[process].text;
  }
  EXPECT_LT(Clock::now() - killed, std::chrono::seconds(20)) << "a wait ended by its deadline";
  finish(children[1]);
  EXPECT_EQ(WTERMSIG(children[1].status), SIGKILL);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

TEST_F(ProcessTransportsTest, SaysWhoIsMissingAtTheDeadline) {
  const auto store =
      std::make_shared<StoreClient>(server.address(), secret, std::chrono::seconds(5));
  ProcessTransportOptions options;
  options.num_ranks = options.num_processes = 2;
  options.meet = std::chrono::milliseconds(300);
  const auto begin = Clock::now();
  const std::string message = message_of([&] { make_process_transports(store, options); });
  EXPECT_NE(message.find("no connection within 300 ms: process 1 did not connect"),
            std::string::npos)
      << message;
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(ProcessTransportsTest, OneProcessNeedsNoStore) {
  ProcessTransportOptions options;
  options.num_ranks = 2;
  const auto endpoints = make_process_transports(nullptr, options);
  ASSERT_EQ(endpoints.size(), 2u);
  EXPECT_EQ(endpoints[1]->rank(), 1);
  options.num_processes = 3;
  EXPECT_THROW(make_process_transports(nullptr, options), Error);
}

}  // namespace
}  // namespace sluice::test
