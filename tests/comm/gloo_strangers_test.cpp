// Foreign connections to Gloo's ports while processes meet. Gloo accepts a connection whose first 8
// bytes are the pair's number, which can be guessed.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "job/socket.h"
#include "support/gloo_processes.h"

namespace sluice::test {
namespace {

using Keys = std::vector<std::string>;

// Reads block until open(). Until then every process listens and none has connected.
class GatedStore final : public c10d::PrefixStore {
 public:
  GatedStore() : PrefixStore("gated", c10::make_intrusive<c10d::HashStore>()) {}

  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }

  std::vector<std::uint8_t> get(const std::string& key) override {
    pass();
    return PrefixStore::get(key);
  }
  std::vector<std::vector<std::uint8_t>> multiGet(const Keys& keys) override {
    pass();
    return PrefixStore::multiGet(keys);
  }
  void wait(const Keys& keys) override {
    pass();
    PrefixStore::wait(keys);
  }
  void wait(const Keys& keys, const std::chrono::milliseconds& timeout) override {
    pass();
    PrefixStore::wait(keys, timeout);
  }

 private:
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return is_open_; });
  }
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;
};

std::set<int> listening_ports() {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string to = std::filesystem::read_symlink(entry.path(), gone).string();
    if (to.starts_with("socket:[")) own.insert(to.substr(8, to.size() - 9));
  }
  std::set<int> ports;
  std::ifstream table("/proc/self/net/tcp");
  std::string line, number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream(line) >> number >> local >> remote >> state >> queues >> timer >>
        retransmits >> user >> timeout >> inode;
    if (state == "0A" && local.starts_with("0100007F:") && own.count(inode))
      ports.insert(std::stoi(local.substr(9), nullptr, 16));
  }
  return ports;
}

std::string bytes_of_number(std::int64_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

class GlooStrangersTest : public ::testing::Test {
 protected:
  ~GlooStrangersTest() override {
    store->open();
    for (std::thread& thread : threads) {
      if (thread.joinable()) thread.join();
    }
  }

  void start(std::chrono::milliseconds deadline) {
    const std::set<int> before = listening_ports();
    for (int n = 0; n < 2; ++n) {
      threads.emplace_back([this, n, deadline] {
        try {
          ProcessRanksOptions process;
          process.num_ranks = process.num_processes = 2;
          process.process = n;
          GlooLinkOptions link;
          link.process = n;
          link.deadline = deadline;
          link.name = "test";
          link.secret = "what only these processes know";
          auto shared = std::make_shared<ProcessRanks>(std::move(process));
          shared->connect(make_gloo_link(store, std::move(link)));
          ends[n] = std::move(make_endpoints(std::move(shared)).front());
        } catch (const Error& error) {
          errors[n] = error.what();
        }
      });
    }
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (ports.size() < 2 && std::chrono::steady_clock::now() < give_up) {
      ports = listening_ports();
      for (const int port : before) ports.erase(port);
    }
    ASSERT_EQ(ports.size(), 2u);
  }
  // Sends the bytes to every process over new connections that stay open.
  void say(const std::string& bytes) {
    for (const int port : ports) {
      std::string reason, rest = bytes;
      const Deadline deadline = deadline_in(std::chrono::seconds(5));
      Socket socket = connect_to("127.0.0.1", port, deadline, reason);
      ASSERT_TRUE(socket) << reason;
      while (!rest.empty() && socket.send(rest) && wait_for(socket, true, deadline)) continue;
      strangers.push_back(std::move(socket));
    }
  }
  void meet() {
    store->open();
    for (std::thread& thread : threads) thread.join();
  }

  const c10::intrusive_ptr<GatedStore> store = c10::make_intrusive<GatedStore>();
  std::set<int> ports;
  std::vector<Socket> strangers;
  std::vector<std::thread> threads;
  std::array<std::string, 2> errors;  // per process; "" for none
  std::array<std::unique_ptr<Transport>, 2> ends;
};

TEST_F(GlooStrangersTest, GarbageWhileProcessesMeetChangesNothing) {
  start(std::chrono::seconds(20));
  std::mt19937 random(1);
  std::string noise(50'000, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  for (const std::string& garbage :
       {std::string(), std::string("abc"), std::string("GET / HTTP/1.1\r\n\r\n"), noise,
        std::string(100, '\xff')}) {
    say(garbage);
    say(garbage);
    strangers.pop_back();
  }
  meet();
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(errors[1], "");
  say(noise);
  const at::Tensor sent = at::randn({100'000});
  ends[0]->send(1, ChannelKind::kActivation, {{1, 0, 1}, {sent}});
  const Message got =
      ends[1]->wait(ends[1]->post_receive(0, ChannelKind::kActivation, {1, 0, 1}, std::nullopt));
  EXPECT_TRUE(at::equal(got.tensors.front(), sent));
}

TEST_F(GlooStrangersTest, OneThatTakesThePairOfAProcessIsFoundAndNamed) {
  start(std::chrono::seconds(2));
  for (std::int64_t number = 0; number < 32; ++number) say(bytes_of_number(number));
  meet();
  for (int n = 0; n < 2; ++n) {
    EXPECT_NE(errors[n].find("the other end of the connection to process " + std::to_string(1 - n)),
              std::string::npos)
        << errors[n];
    EXPECT_NE(errors[n].find("a foreign program may have taken the connection"), std::string::npos)
        << errors[n];
  }
}

}  // namespace
}  // namespace sluice::test
