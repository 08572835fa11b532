#include <gtest/gtest.h>

#include <atomic>
#include <set>
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

TEST(StoreTest, KeepsWhatIsSet) {
  StoreServer server(server_options());
  StoreClient a(server.address(), kSecret, kLong), b(server.address(), kSecret, kLong);
  const std::string bytes("\0\xff binary \n", 11);
  a.set("key", bytes);
  EXPECT_EQ(b.get("key", milliseconds(0)), bytes);
  EXPECT_TRUE(b.has({"key"}));
  EXPECT_TRUE(b.has({}));
  EXPECT_FALSE(b.has({"key", "other"}));
  a.set("key", "");
  EXPECT_EQ(b.get("key", milliseconds(0)), "");
  a.append("key", "left");
  b.append("key", " right");
  EXPECT_EQ(a.get("key", milliseconds(0)), "left right");
  EXPECT_EQ(a.num_keys(), 1);
  EXPECT_TRUE(b.remove("key"));
  EXPECT_FALSE(b.remove("key"));
  EXPECT_EQ(a.num_keys(), 0);
  EXPECT_EQ(a.own_host(), "127.0.0.1");
}

TEST(StoreTest, AddsAndComparesAsTorchsStoresDo) {
  StoreServer server(server_options());
  StoreClient client(server.address(), kSecret, kLong);
  EXPECT_EQ(client.add("n", 3), 3);
  EXPECT_EQ(client.add("n", -5), -2);
  EXPECT_EQ(client.get("n", milliseconds(0)), "-2");
  client.set("word", "x");
  EXPECT_NE(test::message_of([&] { client.add("word", 1); }).find("'word' is not a number"),
            std::string::npos);
  client.set("n", "9223372036854775807");
  EXPECT_NE(test::message_of([&] { client.add("n", 1); }).find("beyond 64 bits"),
            std::string::npos);
  EXPECT_EQ(client.add("m", 1), 1) << "a question that was refused breaks nothing";

  EXPECT_EQ(client.compare_set("c", "something", "new"), "something");
  EXPECT_FALSE(client.has({"c"}));
  EXPECT_EQ(client.compare_set("c", "", "first"), "first");
  EXPECT_EQ(client.compare_set("c", "", "second"), "first");
  EXPECT_EQ(client.compare_set("c", "first", "second"), "second");
}

TEST(StoreTest, WaitsUntilAKeyIsThereAndNoLongerThanTold) {
  StoreServer server(server_options());
  StoreClient waiting(server.address(), kSecret, kLong), setting(server.address(), kSecret, kLong);
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(50));
    setting.set("a", "1");
    std::this_thread::sleep_for(milliseconds(50));
    setting.set("b", "2");
  });
  EXPECT_EQ(waiting.get("a", kLong), "1");
  EXPECT_TRUE(waiting.wait({"a", "b"}, kLong));
  later.join();

  const auto begin = Clock::now();
  EXPECT_FALSE(waiting.wait({"a", "never"}, milliseconds(100)));
  EXPECT_GE(since(begin), milliseconds(100));
  const Error error = test::error_of([&] { waiting.get("never", milliseconds(100)); });
  EXPECT_EQ(error.kind(), ErrorKind::kPeer);
  EXPECT_NE(std::string(error.what()).find("'never' within 100 ms"), std::string::npos);
  EXPECT_LT(since(begin), kLong / 2);
  EXPECT_EQ(waiting.get("b", milliseconds(0)), "2") << "the client goes on";
}

TEST(StoreTest, CarriesLargeValuesAndRefusesTooLargeOnes) {
  StoreServer server(server_options());
  StoreClient client(server.address(), kSecret, kLong);
  std::string large(3'000'000, 'x');
  for (std::size_t i = 0; i < large.size(); i += 1000) large[i] = static_cast<char>(i);
  client.set("large", large);
  EXPECT_EQ(client.get("large", kLong), large);
  EXPECT_EQ(test::error_of([&] { client.set("k", std::string(kMaxFrame, 'x')); }).kind(),
            ErrorKind::kUsage);
  EXPECT_EQ(client.num_keys(), 1) << "the client goes on";
}

TEST(StoreTest, CountsOfManyThreadsAddUp) {
  StoreServer server(server_options());
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::multiset<std::int64_t> sums;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      StoreClient client(server.address(), kSecret, kLong);
      for (int k = 0; k < 50; ++k) {
        const std::int64_t sum = client.add("n", 1);
        const std::lock_guard lock(mutex);
        sums.insert(sum);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::int64_t>(sums.begin(), sums.end()).size(), 400u);
  EXPECT_EQ(*sums.rbegin(), 400);
}

TEST(StoreTest, ThreadsMayShareAClient) {
  StoreServer server(server_options());
  StoreClient client(server.address(), kSecret, kLong);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) client.add("n", 1);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(client.get("n", kLong), "200");
}

TEST(StoreTest, WaitsForAServerThatComesLater) {
  int port = 0;
  { port = StoreServer(server_options()).address().port; }
  std::thread late;
  std::unique_ptr<StoreServer> server;
  late = std::thread([&] {
    std::this_thread::sleep_for(milliseconds(150));
    StoreServerOptions options = server_options();
    options.port = port;
    server = std::make_unique<StoreServer>(options);
  });
  StoreClient client({"127.0.0.1", port}, kSecret, kLong);
  late.join();
  client.set("a", "1");
}

TEST(StoreTest, SaysThatNobodyListens) {
  int port = 0;
  { port = StoreServer(server_options()).address().port; }
  const auto begin = Clock::now();
  const Error error = test::error_of([&] {
    StoreClient({"127.0.0.1", port}, kSecret, milliseconds(300));
  });
  EXPECT_EQ(error.kind(), ErrorKind::kPeer);
  EXPECT_EQ(error.where(), "127.0.0.1:" + std::to_string(port));
  EXPECT_NE(error.fact().find("cannot be reached: Connection refused"), std::string::npos);
  EXPECT_LT(since(begin), kLong / 2);
}

TEST(StoreTest, EndsAWaitWhenTheServerIsGone) {
  auto server = std::make_unique<StoreServer>(server_options());
  StoreClient client(server->address(), kSecret, kLong);
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(100));
    server.reset();
  });
  const auto begin = Clock::now();
  const Error error = test::error_of([&] { client.get("never", milliseconds(60'000)); });
  later.join();
  EXPECT_EQ(error.kind(), ErrorKind::kPeer);
  EXPECT_EQ(error.fact(), "the store of the job is gone");
  EXPECT_LT(since(begin), kLong);
  EXPECT_EQ(test::error_of([&] { client.set("a", "b"); }).fact(), "the store of the job is gone");
}

TEST(StoreTest, EndsEveryWaitWithTheFirstFailureOfTheJob) {
  StoreServer server(server_options());
  StoreClient client(server.address(), kSecret, kLong);
  client.set("there", "1");
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(100));
    server.report({.process = 3, .kind = ErrorKind::kInput, .message = "a file is missing"});
    server.report({.process = 4, .kind = ErrorKind::kMemory, .message = "later"});
  });
  const Error error = test::error_of([&] { client.get("never", milliseconds(60'000)); });
  later.join();
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_STREQ(error.what(), "a file is missing");
  EXPECT_EQ(client.get("there", kLong), "1") << "what is there is given";
  EXPECT_EQ(test::message_of([&] { client.wait({"never"}, kLong); }), "a file is missing");
}

TEST(StoreTest, RefusesAPortThatIsTaken) {
  StoreServer server(server_options());
  StoreServerOptions same = server_options();
  same.port = server.address().port;
  const Error error = test::error_of([&] { StoreServer second(same); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_EQ(error.where(), "127.0.0.1:" + std::to_string(same.port));
  StoreServerOptions elsewhere = server_options();
  elsewhere.host = "192.0.2.1";  // an address reserved for documentation
  EXPECT_EQ(test::error_of([&] { StoreServer second(elsewhere); }).kind(), ErrorKind::kUsage);
}

TEST(StoreTest, TwoServersKnowNothingOfEachOther) {
  StoreServer one(server_options());
  StoreServerOptions options = server_options();
  options.secret = "another";
  StoreServer two(options);
  StoreClient a(one.address(), kSecret, kLong), b(two.address(), "another", kLong);
  a.set("key", "one");
  b.set("key", "two");
  EXPECT_EQ(a.get("key", kLong), "one");
  EXPECT_EQ(b.get("key", kLong), "two");
}

TEST(StoreTest, ListensOnAllAddressesWhenAsked) {
  StoreServerOptions options = server_options();
  options.host.clear();
  StoreServer server(options);
  StoreClient client({"127.0.0.1", server.address().port}, kSecret, kLong);
  client.set("a", "1");
  EXPECT_EQ(client.own_host(), "127.0.0.1");
}

TEST(StoreProtocolTest, FindsWhatWasChangedRepeatedOrLeftOut) {
  FrameWriter writer("key");
  const std::string first = writer.frame("first"), second = writer.frame("second");
  const auto taken = [](std::string bytes, const std::string& key = "key") {
    FrameReader reader(key);
    std::vector<std::string> frames;
    while (auto frame = reader.take(bytes)) frames.push_back(*frame);
    return frames;
  };
  EXPECT_EQ(taken(first + second), (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(taken(first + second.substr(0, second.size() - 1)),
            (std::vector<std::string>{"first"}));
  EXPECT_EQ(test::error_of([&] { taken(second); }).kind(), ErrorKind::kPeer);
  EXPECT_EQ(test::error_of([&] { taken(first + first); }).kind(), ErrorKind::kPeer);
  EXPECT_EQ(test::error_of([&] { taken(first, "other"); }).kind(), ErrorKind::kPeer);
  for (std::size_t at = 4; at < first.size(); ++at) {
    std::string changed = first;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_EQ(test::error_of([&] { taken(changed); }).kind(), ErrorKind::kPeer) << at;
  }
  EXPECT_EQ(test::error_of([&] { taken(std::string(4, '\xff')); }).kind(), ErrorKind::kPeer)
      << "more bytes than a frame has";
}

TEST(StoreProtocolTest, ProofsAreOfOneSideAndOneConnection) {
  const Greeting greeting("secret", std::string(32, 'r'), std::string(32, 'q'));
  std::set<std::string> all = {greeting.client_proof(), greeting.server_proof(), greeting.key(true),
                               greeting.key(false)};
  for (const Greeting& other : {Greeting("Secret", std::string(32, 'r'), std::string(32, 'q')),
                                Greeting("secret", std::string(32, 'R'), std::string(32, 'q')),
                                Greeting("secret", std::string(32, 'r'), std::string(32, 'Q'))}) {
    all.insert({other.client_proof(), other.server_proof(), other.key(true), other.key(false)});
  }
  EXPECT_EQ(all.size(), 16u);
}

}  // namespace
}  // namespace sluice
