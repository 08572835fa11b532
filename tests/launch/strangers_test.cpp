// Connections without the secret learn nothing, change nothing, and block no legitimate process.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "job/sha256.h"
#include "job/store_protocol.h"
#include "support.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

using testing::Clock;
using testing::kLong;
using testing::kSecret;
using testing::milliseconds;
using testing::server_options;
using testing::since;
using testing::Stranger;

class StrangersTest : public ::testing::Test {
 protected:
  void expect_unchanged() {
    EXPECT_EQ(known_.num_keys(), 1);
    EXPECT_EQ(known_.get("key", kLong), "value");
    EXPECT_FALSE(server_.failure()) << server_.failure()->message;
    StoreClient another(server_.address(), kSecret, kLong);
    EXPECT_EQ(another.get("key", kLong), "value");
  }
  void SetUp() override { known_.set("key", "value"); }

  StoreServer server_{server_options()};
  StoreClient known_{server_.address(), kSecret, kLong};
};

TEST_F(StrangersTest, AWrongSecretGetsARandomNumberAndTheEnd) {
  for (const std::string& wrong : {std::string("guess"), std::string(), kSecret + " "}) {
    const Error error =
        test::error_of([&] { StoreClient(server_.address(), wrong, milliseconds(5000)); });
    EXPECT_EQ(error.kind(), ErrorKind::kPeer);
    EXPECT_EQ(error.fact(), "the store of the job rejects this process's secret");
  }
  Stranger stranger(server_.address());
  stranger.say(std::string(kMaxGreeting, 'x'));
  EXPECT_EQ(stranger.hear(kLong).size(), kNonceBytes);
  EXPECT_TRUE(stranger.has_ended());
  expect_unchanged();
}

TEST_F(StrangersTest, AProofCannotBeUsedAgain) {
  // Record a client's message to another server with the same secret.
  StoreServer other(server_options());
  Stranger first(other.address());
  std::string nonce;
  ASSERT_TRUE(
      testing::eventually([&] { return (nonce += first.hear(milliseconds(10))).size() == 32; }));
  const std::string own(kNonceBytes, 'q');
  const std::string said = own + Greeting(kSecret, nonce, own).client_proof();
  first.say(said);
  EXPECT_EQ(first.hear(milliseconds(200)), Greeting(kSecret, nonce, own).server_proof());
  Stranger again(other.address());
  again.say(said);
  EXPECT_EQ(again.hear(kLong).size(), kNonceBytes);
  EXPECT_TRUE(again.has_ended());
}

TEST_F(StrangersTest, AServerWithoutTheSecretIsFound) {
  const Socket listener = listen_at("127.0.0.1", 0);
  std::thread liar([&] {
    bool full = false;
    ASSERT_TRUE(wait_for(listener, false, deadline_in(kLong)));
    Socket socket = accept_from(listener, full);
    std::string nonce(kNonceBytes, 'r'), said;
    socket.send(nonce);
    while (said.size() < kMaxGreeting && wait_for(socket, false, deadline_in(kLong)))
      if (!socket.receive(said, kMaxGreeting)) break;
    std::string proof = said.substr(kNonceBytes);  // reflect the client's own proof
    socket.send(proof);
    std::string rest;
    wait_for(socket, false, deadline_in(kLong));
  });
  const Error error = test::error_of([&] {
    StoreClient({"127.0.0.1", local_port(listener)}, kSecret, milliseconds(5000));
  });
  EXPECT_EQ(error.kind(), ErrorKind::kPeer);
  EXPECT_EQ(error.fact(), "the program that listens there lacks the secret of the job");
  liar.join();
}

TEST_F(StrangersTest, GarbageChangesNothing) {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    Stranger stranger(server_.address());
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    stranger.say(bytes);
    if (i % 3 == 0) stranger.hear(milliseconds(1));
  }
  Stranger browser(server_.address());
  browser.say("GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a program that is curious\r\n\r\n");
  EXPECT_EQ(browser.hear(kLong).size(), kNonceBytes);
  EXPECT_TRUE(browser.has_ended());
  expect_unchanged();
}

TEST_F(StrangersTest, GarbageOfOneWhoHasProvenItselfEndsOnlyItsConnection) {
  for (const bool sealed : {false, true}) {
    Stranger stranger(server_.address());
    std::string nonce;
    ASSERT_TRUE(testing::eventually(
        [&] { return (nonce += stranger.hear(milliseconds(10))).size() == 32; }));
    const std::string own(kNonceBytes, 'q');
    const Greeting greeting(kSecret, nonce, own);
    stranger.say(own + greeting.client_proof());
    stranger.hear(milliseconds(100));
    FrameWriter writer(greeting.key(true));
    stranger.say(sealed ? writer.frame("garbage") : std::string(100, 'g'));
    stranger.hear(kLong);
    EXPECT_TRUE(stranger.has_ended());
  }
  expect_unchanged();
}

TEST_F(StrangersTest, TwoHundredSilentConnectionsKeepNobodyOut) {
  std::vector<Stranger> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.emplace_back(server_.address());
    ASSERT_TRUE(strangers.back().is_connected());
    if (i % 2) strangers.back().say(std::string(static_cast<std::size_t>(i % 60), 'h'));
  }
  // A server that greeted connections one by one would need 2 s for each.
  expect_unchanged();
  // The server keeps at most 128 such connections and closes the oldest.
  strangers.front().hear(kLong);
  EXPECT_TRUE(strangers.front().has_ended());
}

TEST_F(StrangersTest, ASilentOneIsEndedAfterTwoSeconds) {
  Stranger silent(server_.address()), half(server_.address());
  half.say("half of it");
  const auto begin = Clock::now();
  EXPECT_EQ(silent.hear(kLong).size(), kNonceBytes);
  EXPECT_TRUE(silent.has_ended());
  half.hear(kLong);
  EXPECT_TRUE(half.has_ended());
  EXPECT_GE(since(begin), milliseconds(1500));
  expect_unchanged();
}

TEST_F(StrangersTest, OneWhoSpeaksSlowlyIsEndedAsWell) {
  Stranger slow(server_.address());
  const auto begin = Clock::now();
  while (!slow.has_ended() && since(begin) < kLong) {
    slow.say("x");
    slow.hear(milliseconds(100));
  }
  EXPECT_TRUE(slow.has_ended());
  expect_unchanged();
}

}  // namespace
}  // namespace sluice
