#include "job/rendezvous.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>

#include "job/private_file.h"
#include "job/socket.h"
#include "support.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using testing::Clock;
using testing::kLong;
using testing::milliseconds;
using testing::since;

class RendezvousTest : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("XDG_RUNTIME_DIR", folder_.str().c_str(), 1); }
  void TearDown() override { ::unsetenv("XDG_RUNTIME_DIR"); }

  static LaunchEnvironment here(int process, int processes, const std::string& job) {
    LaunchEnvironment environment;
    environment.launcher = Launcher::kSlurm;
    environment.layout = {processes, process, processes, process};
    environment.job = job;
    return environment;
  }
  static LaunchEnvironment apart(int process, int processes, int port,
                                 const std::string& secret = "the secret of several machines") {
    LaunchEnvironment environment;
    environment.launcher = Launcher::kByHand;
    environment.layout = {processes, process, 1, 0};
    environment.master_address = "127.0.0.1";
    environment.master_port = port;
    environment.secret = secret;
    return environment;
  }
  std::set<std::string> files() const {
    return test::list_directory(folder_ / ("sluice-" + std::to_string(::geteuid())));
  }

  test::TempDirectory folder_;
};

// Each process is a thread.
std::vector<JobStore> join_all(const std::vector<LaunchEnvironment>& environments,
                               NoticeBoard* board = nullptr) {
  std::vector<JobStore> stores(environments.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < environments.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        stores[i] = join_job(environments[i], kLong, board);
      } catch (const Error& error) {
        ADD_FAILURE() << "process " << i << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return stores;
}

void expect_one_store(const std::vector<JobStore>& stores) {
  for (const JobStore& store : stores) {
    StoreClient client(store.address, store.secret, kLong);
    client.add("joined", 1);
  }
  StoreClient client(stores[0].address, stores[0].secret, kLong);
  EXPECT_EQ(client.get("joined", kLong), std::to_string(stores.size()));
}

int free_port() {
  const Socket listener = listen_at("127.0.0.1", 0);
  return local_port(listener);
}

TEST_F(RendezvousTest, ProcessesOfOneMachineMeetThroughAPrivateFile) {
  const auto stores = join_all({here(0, 3, "job"), here(1, 3, "job"), here(2, 3, "job")});
  expect_one_store(stores);
  EXPECT_TRUE(stores[0].server);
  EXPECT_FALSE(stores[1].server);
  EXPECT_EQ(stores[0].address.host, "127.0.0.1");
  EXPECT_TRUE(files().empty()) << "nothing is left once all have come";
}

TEST_F(RendezvousTest, TheFileIsForThisUserAlone) {
  JobStore kept;  // keeps the server until both processes have arrived
  std::jthread first([&kept] { kept = join_job(here(0, 2, "job"), kLong); });
  EXPECT_TRUE(testing::eventually([&] {
    return std::filesystem::exists(folder_ / ("sluice-" + std::to_string(::geteuid()))) &&
           files().size() == 1 && files().begin()->find(".tmp") == std::string::npos;
  }));
  const std::string folder = folder_ / ("sluice-" + std::to_string(::geteuid()));
  struct stat status;
  ASSERT_EQ(::stat(folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat((folder + "/" + *files().begin()).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  (void)join_job(here(1, 2, "job"), kLong);
  first.join();
}

TEST_F(RendezvousTest, TwoJobsAtOnceDoNotMeet) {
  std::vector<JobStore> one, two;
  std::thread other([&] { one = join_all({here(0, 2, "one"), here(1, 2, "one")}); });
  two = join_all({here(0, 2, "two"), here(1, 2, "two")});
  other.join();
  expect_one_store(one);
  expect_one_store(two);
  EXPECT_NE(one[0].address.port, two[0].address.port);
  EXPECT_NE(one[0].secret, two[0].secret);
}

TEST_F(RendezvousTest, TheSameNameMayBeUsedAgainWhileTheFirstJobRuns) {
  const auto first = join_all({here(0, 2, "name"), here(1, 2, "name")});
  const auto second = join_all({here(0, 2, "name"), here(1, 2, "name")});
  expect_one_store(first);
  expect_one_store(second);
}

TEST_F(RendezvousTest, WhatAKilledJobHasLeftConfusesNobody) {
  const std::string path = private_path("name");
  for (const std::string& left :
       {std::string("garbage"), std::string(), std::string("sluice-store 1\n127.0.0.1\n1\nsecret"),
        "sluice-store 1\n127.0.0.1\n" + std::to_string(free_port()) + "\nsecret"}) {
    test::write_file(path, left);
    ::chmod(path.c_str(), 0600);
    std::vector<JobStore> stores(2);
    std::thread late([&] { stores[1] = join_job(here(1, 2, "name"), kLong); });
    std::this_thread::sleep_for(milliseconds(100));
    stores[0] = join_job(here(0, 2, "name"), kLong);
    late.join();
    expect_one_store(stores);
    EXPECT_FALSE(std::filesystem::exists(path));
  }
}

TEST_F(RendezvousTest, AnEarlierJobThatStillEndsConfusesNobody) {
  // The earlier job's server is alive, its process 1 has arrived, and its file exists.
  StoreServerOptions options;
  options.secret = "earlier";
  auto earlier = std::make_unique<StoreServer>(options);
  StoreClient(earlier->address(), "earlier", kLong).set("sluice/arrived/1", "somebody");
  const std::string path = private_path("name");
  test::write_file(
      path, "sluice-store 1\n127.0.0.1\n" + std::to_string(earlier->address().port) + "\nearlier");
  ::chmod(path.c_str(), 0600);
  std::vector<JobStore> stores(3);
  std::vector<std::thread> threads;
  for (int process = 0; process < 3; ++process)
    threads.emplace_back(
        [&, process] { stores[process] = join_job(here(process, 3, "name"), kLong); });
  std::this_thread::sleep_for(milliseconds(300));
  earlier.reset();
  for (std::thread& thread : threads) thread.join();
  expect_one_store(stores);
}

TEST_F(RendezvousTest, NothingIsTakenFromAFileThatOthersMayRead) {
  StoreServerOptions options;
  options.secret = "bait";
  const StoreServer bait(options);
  const std::string path = private_path("name");
  const std::string text =
      "sluice-store 1\n127.0.0.1\n" + std::to_string(bait.address().port) + "\nbait";
  test::write_file(path, text);
  ::chmod(path.c_str(), 0644);
  EXPECT_FALSE(read_private_file(path));
  EXPECT_EQ(test::error_of([] { join_job(here(1, 2, "name"), milliseconds(200)); }).kind(),
            ErrorKind::kPeer);
  ::chmod(path.c_str(), 0600);
  EXPECT_EQ(read_private_file(path), text);
  const std::string target = folder_ / "target";
  std::filesystem::rename(path, target);
  std::filesystem::create_symlink(target, path);
  EXPECT_FALSE(read_private_file(path)) << "a link";
}

TEST_F(RendezvousTest, RefusesAFolderThatIsNotThisUsersAlone) {
  const std::string folder = folder_ / ("sluice-" + std::to_string(::geteuid()));
  const auto refused = [] {
    const Error error = test::error_of([] { join_job(here(0, 2, "name"), milliseconds(200)); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.fact(), "this folder is not private to this user");
  };
  std::filesystem::create_directory(folder);
  ::chmod(folder.c_str(), 0755);
  refused();
  std::filesystem::remove(folder);
  std::filesystem::create_directory(folder_ / "elsewhere");
  ::chmod((folder_ / "elsewhere").c_str(), 0700);
  std::filesystem::create_directory_symlink(folder_ / "elsewhere", folder);
  refused();
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a folder of somebody else's";
  std::filesystem::remove(folder);
  std::filesystem::create_directory(folder);
  ::chmod(folder.c_str(), 0700);
  ASSERT_EQ(::chown(folder.c_str(), 1, 1), 0);
  refused();
}

TEST_F(RendezvousTest, NamesThoseWhoDoNotCome) {
  const Error error = test::error_of([] { join_job(here(0, 3, "name"), milliseconds(300)); });
  EXPECT_EQ(error.kind(), ErrorKind::kPeer);
  EXPECT_EQ(error.fact(), "processes 1, 2 of 3 did not join within 0.3 s");
  const Error alone = test::error_of([] { join_job(here(2, 3, "name"), milliseconds(300)); });
  EXPECT_EQ(alone.fact(), "process 0 of this job did not join within 0.3 s");
}

TEST_F(RendezvousTest, ProcessesByHandMeetByTheirPort) {
  LaunchEnvironment first = here(0, 2, ""), second = here(1, 2, "");
  for (LaunchEnvironment* environment : {&first, &second}) {
    environment->launcher = Launcher::kByHand;
    environment->master_port = 29'500;
  }
  first.master_address = "127.0.0.1";
  second.master_address = "localhost";
  expect_one_store(join_all({first, second}));
  first.launcher = Launcher::kOpenMpi;
  first.master_port = 0;
  const Error error = test::error_of([&] { join_job(first, milliseconds(200)); });
  EXPECT_EQ(error.fact(), "mpirun gives this job no name by which its processes can meet");
}

TEST_F(RendezvousTest, SeveralMachinesMeetAtTheMaster) {
  const int port = free_port();
  const auto stores = join_all({apart(0, 2, port), apart(1, 2, port)});
  expect_one_store(stores);
  EXPECT_EQ(stores[1].address.port, port);
  EXPECT_NE(stores[1].secret, "the secret of several machines");
}

TEST_F(RendezvousTest, SeveralMachinesNeedASecret) {
  for (int process : {0, 1}) {
    const Error error =
        test::error_of([&] { join_job(apart(process, 2, 29'500, ""), milliseconds(200)); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(error.remedy().find("SLUICE_JOB_SECRET"), std::string::npos);
  }
}

TEST_F(RendezvousTest, AProcessWithAnotherSecretDoesNotMeet) {
  const int port = free_port();
  std::optional<Error> refused, missing;
  std::thread first(
      [&] { missing = test::error_of([&] { join_job(apart(0, 2, port), milliseconds(1500)); }); });
  refused =
      test::error_of([&] { join_job(apart(1, 2, port, "another secret"), milliseconds(1500)); });
  first.join();
  EXPECT_EQ(refused->fact(), "the store of the job rejects this process's secret");
  EXPECT_EQ(
      missing->fact(),
      "process 1 of 2 did not join within 1.5 s, and a peer with another secret was refused (from "
      "127.0.0.1)");
}

TEST_F(RendezvousTest, TwoOfOneNumberAreRefused) {
  const int port = free_port();
  std::thread first([&] {
    EXPECT_EQ(test::error_of([&] { join_job(apart(0, 3, port), milliseconds(2000)); }).kind(),
              ErrorKind::kPeer);
  });
  std::thread second([&] {
    EXPECT_EQ(test::error_of([&] { join_job(apart(1, 3, port), milliseconds(2000)); }).kind(),
              ErrorKind::kPeer);
  });
  std::this_thread::sleep_for(milliseconds(500));
  const Error error = test::error_of([&] { join_job(apart(1, 3, port), kLong); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_EQ(error.fact(), "process 1 of this job has already joined");
  first.join();
  second.join();
}

class Board final : public NoticeBoard {
 public:
  void put(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    text_ = text;
    changed_.notify_all();
  }
  std::string get(milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [this] { return text_.has_value(); }))
      throw Error(ErrorKind::kPeer, {.what = "nothing was left"});
    return *text_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> text_;
};

TEST_F(RendezvousTest, UnderTorchrunItsStoreTellsWhere) {
  Board board;
  LaunchEnvironment first = here(0, 2, "torchrun-x"), second = here(1, 2, "torchrun-x");
  first.launcher = second.launcher = Launcher::kTorchrun;
  expect_one_store(join_all({first, second}, &board));
  // On several machines the others use the address of the first.
  Board other;
  for (LaunchEnvironment* environment : {&first, &second}) {
    environment->layout.processes_on_machine = 1;
    environment->layout.local_process = 0;
    environment->master_address = "localhost";
  }
  expect_one_store(join_all({first, second}, &other));
}

TEST_F(RendezvousTest, UnderSluiceLaunchTheLauncherServes) {
  StoreServerOptions options;
  options.secret = "of the launcher";
  const StoreServer server(options);
  std::vector<LaunchEnvironment> environments = {here(0, 2, ""), here(1, 2, "")};
  for (LaunchEnvironment& environment : environments) {
    environment.launcher = Launcher::kSluice;
    environment.master_address = server.address().host;
    environment.master_port = server.address().port;
    environment.secret = "of the launcher";
  }
  const auto stores = join_all(environments);
  expect_one_store(stores);
  EXPECT_FALSE(stores[0].server);
}

TEST_F(RendezvousTest, AProcessAloneHasAStoreOfItsOwn) {
  LaunchEnvironment alone;
  const JobStore store = join_job(alone, kLong);
  EXPECT_TRUE(store.server);
  StoreClient(store.address, store.secret, kLong).set("a", "1");
}

TEST_F(RendezvousTest, FiftyMeetingsOfFourNoneHangs) {
  const auto begin = Clock::now();
  for (int round = 0; round < 50; ++round) {
    const std::string job = "round " + std::to_string(round % 3);
    expect_one_store(
        join_all({here(0, 4, job), here(1, 4, job), here(2, 4, job), here(3, 4, job)}));
  }
  EXPECT_LT(since(begin), 3 * kLong);
}

}  // namespace
}  // namespace sluice
