// The launcher runs in its own process, so that tests can send it signals. Its processes are sh
// scripts.
#include "launch/launch_job.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/text.h"
#include "launch/child_process.h"
#include "sluice/error.h"
#include "support.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using testing::Clock;
using testing::eventually;
using testing::kLong;
using testing::milliseconds;
using testing::since;

class LaunchJobTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const pid_t launcher : launchers_) {
      ::kill(launcher, SIGKILL);
      ::waitpid(launcher, nullptr, 0);
    }
  }

  // The script sees $RANK and runs in the test's folder.
  LaunchOptions options(const std::string& script, int processes = 2) const {
    LaunchOptions options;
    options.program = "/bin/sh";
    options.command = {"sh", "-c", "cd '" + folder_.str() + "' || exit; " + script};
    options.processes = processes;
    options.patience = milliseconds(700);
    return options;
  }
  pid_t begin(const LaunchOptions& options, const std::string& name = "launcher",
              bool own_group = true) {
    const std::string out = folder_ / (name + ".out"), err = folder_ / (name + ".err");
    const pid_t launcher = ::fork();
    if (launcher == 0) {
      if (own_group) ::setpgid(0, 0);
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDOUT_FILENO);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
      int code = 0;
      try {
        code = launch_job(options);
      } catch (const Error& error) {
        std::fprintf(stderr, "sluice: error: %s\n", error.what());
        code = error.exit_code();
      }
      std::fflush(stderr);
      ::_exit(code);
    }
    launchers_.push_back(launcher);
    return launcher;
  }
  // Returns the exit code, 128 + n for a signal, -1 if it does not end.
  int end(pid_t launcher) {
    int status = 0;
    const bool ended =
        eventually([&] { return ::waitpid(launcher, &status, WNOHANG) == launcher; });
    if (!ended) return -1;
    std::erase(launchers_, launcher);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int run(const LaunchOptions& options) { return end(begin(options)); }

  std::string text(const std::string& name) const { return test::read_file(folder_ / name); }
  bool there(const std::string& name) const { return std::filesystem::exists(folder_ / name); }
  bool all_there(const std::vector<std::string>& names) const {
    return eventually([&] {
      return std::all_of(names.begin(), names.end(), [&](const auto& name) { return there(name); });
    });
  }
  // The files hold process ids.
  bool all_gone(const std::vector<std::string>& names) const {
    return eventually([&] {
      return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
        const pid_t pid = std::stoi(text(name));
        return ::kill(pid, 0) != 0 || state_of(pid) == 'Z';
      });
    });
  }
  static char state_of(pid_t pid) {
    const std::string stat = test::read_file("/proc/" + std::to_string(pid) + "/stat");
    const std::size_t at = stat.rfind(") ");
    return at == std::string::npos ? 'Z' : stat[at + 2];
  }
  std::string errors() const { return text("launcher.err"); }

  test::TempDirectory folder_;
  std::vector<pid_t> launchers_;
};

TEST_F(LaunchJobTest, GivesEveryProcessItsPlace) {
  EXPECT_EQ(run(options("echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR "
                        "${#SLUICE_JOB_SECRET} $_SLUICE_LAUNCH_RESTART > place$RANK; "
                        "test $MASTER_PORT -gt 1023",
                        3)),
            0)
      << errors();
  EXPECT_EQ(text("place0"), "0 0 3 3 127.0.0.1 64 0\n");
  EXPECT_EQ(text("place2"), "2 2 3 3 127.0.0.1 64 0\n");
  EXPECT_EQ(errors(), "");
}

TEST_F(LaunchJobTest, WhatProcess0PrintsPassesUnchangedAndAlone) {
  EXPECT_EQ(run(options("printf 'no line end %s' $RANK; echo error $RANK >&2; read line")), 1)
      << "stdin is empty";
  EXPECT_EQ(text("launcher.out"), "no line end 0");
  for (const char* part : {"error 0\n", "error 1\n", "no line end 1"})
    EXPECT_NE(errors().find(part), std::string::npos) << errors();
}

TEST_F(LaunchJobTest, AnErrorThatAllMeetIsShownOnce) {
  EXPECT_EQ(run(options("echo 'sluice: error: the file is missing' >&2; exit 3", 4)), 3);
  EXPECT_EQ(errors(), "sluice: error: the file is missing\n");
}

TEST_F(LaunchJobTest, TheExitCodeIsThatOfTheProcessThatFailedFirst) {
  EXPECT_EQ(run(options("test $RANK = 1 && exit 6; sleep 0.4; exit 5")), 6);
  EXPECT_NE(errors().find("process 1 ended with exit code 6; command 'sluice launch'; "),
            std::string::npos)
      << "nobody else has said so: " << errors();
  EXPECT_EQ(run(options("test $RANK = 0 && exit 9; exit 0")), 9);
}

TEST_F(LaunchJobTest, ASignalThatEndsAProcessIsNamed) {
  EXPECT_EQ(run(options("test $RANK = 1 && kill -9 $$; sleep 0.3; exit 5")), 128 + 9);
  EXPECT_NE(errors().find("sluice: error: process 1 was ended by signal 9 (Killed); "),
            std::string::npos)
      << errors();
}

TEST_F(LaunchJobTest, AllThatStoppedWithACheckpointAre75) {
  EXPECT_EQ(run(options("exit 75")), 75);
  EXPECT_EQ(run(options("test $RANK = 1 && exit 75; exit 0")), 75);
  EXPECT_EQ(errors(), "");
}

TEST_F(LaunchJobTest, WhoDoesNotEndAfterAFailureIsEnded) {
  const auto begin_at = Clock::now();
  EXPECT_EQ(run(options("trap '' TERM; echo $$ > pid$RANK; test $RANK = 1 && exit 5; "
                        "while :; do sleep 0.1; done",
                        3)),
            5);
  EXPECT_GE(since(begin_at), milliseconds(1300)) << "time to end, then SIGTERM, then SIGKILL";
  EXPECT_TRUE(all_gone({"pid0", "pid1", "pid2"}));
}

TEST_F(LaunchJobTest, OthersHaveTimeToEndByThemselves) {
  EXPECT_EQ(run(options("test $RANK = 1 && exit 5; sleep 0.3; echo saved > saved; exit 5")), 5);
  EXPECT_EQ(text("saved"), "saved\n");
}

TEST_F(LaunchJobTest, NoOrphansAreLeftWhenTheLauncherIsKilled) {
  const pid_t launcher =
      begin(options("echo $$ > pid$RANK.new; mv pid$RANK.new pid$RANK; "
                    "trap '' TERM HUP INT; while :; do sleep 0.05; done",
                    4));
  ASSERT_TRUE(all_there({"pid0", "pid1", "pid2", "pid3"}));
  ::kill(launcher, SIGKILL);
  EXPECT_EQ(end(launcher), 128 + SIGKILL);
  EXPECT_TRUE(all_gone({"pid0", "pid1", "pid2", "pid3"}));
}

TEST_F(LaunchJobTest, NoOrphansAreLeftWheneverTheLauncherIsKilled) {
  for (int round = 0; round < 30; ++round) {
    const std::string name = "round" + std::to_string(round) + "_";
    const pid_t launcher = begin(options("echo $$ > " + name + "$RANK; exec sleep 30", 4));
    std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
    ::kill(launcher, SIGKILL);
    end(launcher);
  }
  std::this_thread::sleep_for(milliseconds(100));
  for (const std::string& name : test::list_directory(folder_.str())) {
    if (name.starts_with("round") && !text(name).empty()) {
      EXPECT_TRUE(all_gone({name})) << name;
    }
  }
}

TEST_F(LaunchJobTest, WhatAProcessHasLeftBehindIsEnded) {
  EXPECT_EQ(run(options("sh -c 'echo $$ > left$RANK.new; mv left$RANK.new left$RANK; sleep 30' & "
                        "while ! test -e left$RANK; do sleep 0.02; done")),
            0);
  EXPECT_TRUE(all_gone({"left0", "left1"}));
}

TEST_F(LaunchJobTest, OneRequestToStopIsForwardedOnce) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string script =
        "trap 'echo x >> stops$RANK; sleep 0.3; exit 75' TERM; trap 'echo no >> stops$RANK' INT "
        "HUP; touch ready$RANK; while :; do sleep 0.02; done";
    const pid_t launcher = begin(options(script));
    ASSERT_TRUE(all_there({"ready0", "ready1"}));
    std::this_thread::sleep_for(milliseconds(50));
    ::kill(-launcher, signal);  // the whole process group, like a terminal
    ::kill(launcher, signal);
    std::this_thread::sleep_for(milliseconds(100));
    ::kill(launcher, SIGTERM);  // within a second it counts as the same request
    EXPECT_EQ(end(launcher), 75);
    for (const char* name : {"stops0", "stops1"}) {
      EXPECT_EQ(text(name), "x\n");
      std::filesystem::remove(folder_ / name);
    }
    for (const char* name : {"ready0", "ready1"}) std::filesystem::remove(folder_ / name);
  }
}

TEST_F(LaunchJobTest, AStopBeforeThereIsAnythingToSaveHasTheCodeOfItsSignal) {
  const pid_t launcher = begin(options("touch ready$RANK; exec sleep 30"));
  ASSERT_TRUE(all_there({"ready0", "ready1"}));
  std::this_thread::sleep_for(milliseconds(50));
  ::kill(launcher, SIGINT);
  EXPECT_EQ(end(launcher), 130);
  EXPECT_EQ(errors(), "") << "who asks for it needs no error";
}

TEST_F(LaunchJobTest, ASecondRequestASecondLaterEndsAll) {
  const pid_t launcher =
      begin(options("echo $$ > pid$RANK; trap '' TERM; touch ready$RANK; "
                    "while :; do sleep 0.05; done"));
  ASSERT_TRUE(all_there({"ready0", "ready1"}));
  ::kill(launcher, SIGINT);
  std::this_thread::sleep_for(milliseconds(1200));
  EXPECT_NE(state_of(launcher), 'Z');
  ::kill(launcher, SIGINT);
  EXPECT_EQ(end(launcher), 130);
  EXPECT_TRUE(all_gone({"pid0", "pid1"}));
}

TEST_F(LaunchJobTest, RequestsToSaveAreForwarded) {
  const pid_t launcher =
      begin(options("trap 'touch one$RANK' USR1; trap 'touch two$RANK' USR2; touch ready$RANK; "
                    "while ! { test -e one$RANK && test -e two$RANK; }; do sleep 0.02; done"));
  ASSERT_TRUE(all_there({"ready0", "ready1"}));
  ::kill(launcher, SIGUSR1);
  ::kill(launcher, SIGUSR2);
  EXPECT_EQ(end(launcher), 0);
}

TEST_F(LaunchJobTest, CtrlZStopsAndContinuesTheProcesses) {
  // The script starts no children. A shell whose child is stopped between vfork and exec waits in
  // state D.
  const pid_t launcher =
      begin(options("echo $$ > pid$RANK; touch ready$RANK; while ! test -e end; do :; done"));
  ASSERT_TRUE(all_there({"ready0", "ready1"}));
  ::kill(launcher, SIGTSTP);
  const pid_t first = std::stoi(text("pid0")), second = std::stoi(text("pid1"));
  EXPECT_TRUE(eventually([&] { return state_of(first) == 'T' && state_of(second) == 'T'; }));
  if (state_of(launcher) != 'T') std::this_thread::sleep_for(milliseconds(200));
  ::kill(launcher, SIGCONT);
  EXPECT_TRUE(eventually([&] { return state_of(first) != 'T' && state_of(second) != 'T'; }));
  test::write_file(folder_ / "end", "");
  EXPECT_EQ(end(launcher), 0);
}

TEST_F(LaunchJobTest, StartsAgainAfterAFailureThatMayNotComeAgain) {
  LaunchOptions again = options(
      "test $_SLUICE_LAUNCH_RESTART = 2 && exit 0; "
      "echo $SLUICE_JOB_SECRET >> secrets; "
      "test $RANK = 1 && kill -9 $$; sleep 0.1; exit 5");
  again.max_restarts = 3;
  EXPECT_EQ(run(again), 0) << errors();
  for (const char* line :
       {"sluice: warning: process 1 was ended by signal 9 (Killed): restart 1 of 3\n",
        "sluice: warning: process 1 was ended by signal 9 (Killed): restart 2 of 3\n"})
    EXPECT_NE(errors().find(line), std::string::npos) << errors();
  EXPECT_EQ(errors().find("restart 3"), std::string::npos);
  const std::vector<std::string> secrets = split(text("secrets"), '\n');
  ASSERT_GE(secrets.size(), 4u);
  EXPECT_NE(secrets[0], secrets[3]) << "a fresh store every time";
}

TEST_F(LaunchJobTest, GivesUpAfterTheRestarts) {
  LaunchOptions again = options("echo x >> starts; exit 5", 1);
  again.max_restarts = 2;
  EXPECT_EQ(run(again), 5);
  EXPECT_EQ(text("starts"), "x\nx\nx\n");
}

TEST_F(LaunchJobTest, WhatWouldComeAgainIsNotRepeated) {
  for (const int code : {2, 3, 4, 6, 75, 0}) {
    LaunchOptions again = options("echo x >> starts; exit " + std::to_string(code), 1);
    again.max_restarts = 2;
    EXPECT_EQ(run(again), code);
    EXPECT_EQ(text("starts"), "x\n") << code;
    std::filesystem::remove(folder_ / "starts");
  }
}

TEST_F(LaunchJobTest, WritesALogForEveryProcess) {
  LaunchOptions logged = options(
      "echo out $RANK; echo err $RANK >&2; test $RANK = 2 || exit 0; "
      "test $_SLUICE_LAUNCH_RESTART = 1 && exit 0; exit 5",
      3);
  logged.log_folder = folder_ / "logs/of/it";
  logged.max_restarts = 1;
  EXPECT_EQ(run(logged), 0) << errors();
  EXPECT_EQ(text("launcher.out"), "out 0\nout 0\n") << "of both attempts";
  for (const char* rank : {"0", "1", "2"}) {
    const std::string log = text("logs/of/it/rank_" + std::string(rank) + ".log");
    const std::string out = "out " + std::string(rank), err = "err " + std::string(rank);
    EXPECT_NE(log.find(out), std::string::npos) << log;
    EXPECT_NE(log.find(err, log.find(err) + 1), std::string::npos) << "both attempts: " << log;
    EXPECT_NE(errors().find(err), std::string::npos) << errors();
  }
  EXPECT_EQ(errors().find("out 1"), std::string::npos) << errors();
  logged.command = {"sh", "-c", "true"};
  EXPECT_EQ(run(logged), 0);
  EXPECT_EQ(text("logs/of/it/rank_0.log"), "") << "a new launch begins new logs";
}

TEST_F(LaunchJobTest, RefusesAProgramThatCannotRun) {
  LaunchOptions missing = options("true");
  missing.program = folder_ / "no such program";
  EXPECT_EQ(run(missing), 2);
  EXPECT_NE(errors().find("cannot execute the program: No such file"), std::string::npos)
      << errors();
  LaunchOptions logged = options("true");
  test::write_file(folder_ / "file", "");
  logged.log_folder = folder_ / "file/logs";
  EXPECT_EQ(run(logged), 2);
}

// ---- several machines, simulated by several launchers ----
class LaunchNodesTest : public LaunchJobTest {
 protected:
  LaunchOptions node(int node, int port, const std::string& script) const {
    LaunchOptions of_node = options(script, 2);
    of_node.num_nodes = 2;
    of_node.node = node;
    of_node.meeting = {"127.0.0.1", port};
    of_node.secret = "the same on both";
    of_node.meeting_timeout = kLong;
    return of_node;
  }
  static int free_port() { return local_port(listen_at("127.0.0.1", 0)); }
};

TEST_F(LaunchNodesTest, NodesStartTogetherAndCountOn) {
  const int port = free_port();
  const std::string script = "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE > place$RANK";
  const pid_t second = begin(node(1, port, script), "second");
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_FALSE(there("place2")) << "machine 0 is not there yet";
  const pid_t first = begin(node(0, port, script));
  EXPECT_EQ(end(first), 0) << errors();
  EXPECT_EQ(end(second), 0) << text("second.err");
  EXPECT_EQ(text("place0"), "0 0 4 2\n");
  EXPECT_EQ(text("place3"), "3 1 4 2\n");
}

TEST_F(LaunchNodesTest, AllNodesStartAgainAndEndWithTheSameCode) {
  const int port = free_port();
  for (const int last : {0, 5}) {
    const std::string script = "test $_SLUICE_LAUNCH_RESTART = 1 && exit " + std::to_string(last) +
                               "; test $RANK = 3 && kill -9 $$; sleep 0.2; exit 5";
    LaunchOptions first = node(0, port, script), second = node(1, port, script);
    first.max_restarts = second.max_restarts = 1;
    const pid_t a = begin(first), b = begin(second, "second");
    EXPECT_EQ(end(a), last) << errors();
    EXPECT_EQ(end(b), last) << text("second.err");
    EXPECT_NE(errors().find(": restart 1 of 1\n"), std::string::npos) << errors();
    EXPECT_NE(text("second.err").find(": restart 1 of 1\n"), std::string::npos);
  }
}

TEST_F(LaunchNodesTest, NodesThatDoNotFitAreRefused) {
  const int port = free_port();
  LaunchOptions second = node(1, port, "true");
  second.processes = 3;
  const pid_t a = begin(node(0, port, "true")), b = begin(second, "second");
  EXPECT_EQ(end(b), 2);
  EXPECT_EQ(end(a), 2) << errors();
  EXPECT_NE(text("second.err")
                .find("machine 0 was started for 2 machines of 2 processes, but this one for 2 "
                      "machines of 3 processes; "),
            std::string::npos)
      << text("second.err");
}

TEST_F(LaunchNodesTest, ANodeThatDoesNotComeIsNamed) {
  LaunchOptions alone = node(0, free_port(), "true");
  alone.meeting_timeout = milliseconds(300);
  EXPECT_EQ(run(alone), 5);
  EXPECT_NE(errors().find("machine 1 of 2 did not join within "), std::string::npos) << errors();
}

TEST_F(LaunchNodesTest, ALauncherThatWaitsSaysForWhomAndWhoWasRefused) {
  const int port = free_port(), silent_port = free_port();
  const Socket silent = listen_at("127.0.0.1", silent_port);  // accepts, but never answers
  LaunchOptions first = node(0, port, "true"), stranger = node(1, port, "true"),
                second = node(1, silent_port, "true");
  first.meeting_timeout = second.meeting_timeout = milliseconds(6500);
  stranger.secret = "another of sixteen letters";
  stranger.meeting_timeout = milliseconds(6000);
  const auto began = Clock::now();
  const pid_t a = begin(first), b = begin(stranger, "stranger"), c = begin(second, "second");
  EXPECT_EQ(end(a), 5);
  EXPECT_EQ(end(b), 5);
  EXPECT_EQ(end(c), 5);
  EXPECT_LT(since(began), testing::kLong);
  const std::string at = "127.0.0.1:" + std::to_string(port),
                    refused = ", and a peer with another secret was refused (from 127.0.0.1)";
  EXPECT_NE(errors().find("sluice: warning: waiting for machine 1 of 2 at " + at + refused + "\n"),
            std::string::npos)
      << errors();
  EXPECT_NE(errors().find("machine 1 of 2 did not join within 6.5 s" + refused + "; " + at + "; "),
            std::string::npos)
      << errors();
  EXPECT_NE(
      text("second.err")
          .find("sluice: info: waiting for machine 0 at 127.0.0.1:" + std::to_string(silent_port) +
                " (the store of the job cannot be reached: it does not answer)\n"),
      std::string::npos)
      << text("second.err");
}

TEST_F(LaunchNodesTest, ALauncherThatIsKilledIsNamedAndTheOtherEndsSoon) {
  for (const int killed : {1, 0}) {
    const int port = free_port();
    LaunchOptions options[2] = {node(0, port, "touch ready$RANK; exec sleep 60"),
                                node(1, port, "touch ready$RANK; exec sleep 60")};
    pid_t launchers[2];
    for (int i = 0; i < 2; ++i) {
      options[i].heartbeat = milliseconds(1000);
      launchers[i] = begin(options[i], "killed" + std::to_string(killed) + std::to_string(i));
    }
    ASSERT_TRUE(all_there({"ready0", "ready1", "ready2", "ready3"}));
    std::this_thread::sleep_for(milliseconds(300));
    ::kill(launchers[killed], SIGKILL);
    const auto since_kill = Clock::now();
    EXPECT_EQ(end(launchers[1 - killed]), 5);
    EXPECT_LT(since(since_kill), testing::kLong) << "the processes sleep for 60 s";
    const std::string said =
        text("killed" + std::to_string(killed) + std::to_string(1 - killed) + ".err");
    EXPECT_NE(
        said.find(killed == 1 ? "the launcher of machine 1, pid " + std::to_string(launchers[1])
                              : "machine 0 is lost"),
        std::string::npos)
        << said;
    end(launchers[killed]);
    for (int rank = 0; rank < 4; ++rank)
      std::filesystem::remove(folder_ / ("ready" + std::to_string(rank)));
  }
}

TEST_F(LaunchNodesTest, ALauncherThatIsStartedAgainFindsTheAttemptOfTheOthers) {
  const int port = free_port();
  const std::string script =
      "test $_SLUICE_LAUNCH_RESTART = 1 && exit 0; touch ready$RANK; exec sleep 60";
  LaunchOptions first = node(0, port, script), second = node(1, port, script);
  first.max_restarts = second.max_restarts = 3;
  const pid_t a = begin(first), b = begin(second, "second");
  ASSERT_TRUE(all_there({"ready0", "ready1", "ready2", "ready3"}));
  ::kill(b, SIGKILL);
  EXPECT_EQ(end(b), 128 + SIGKILL);
  const pid_t again = begin(second, "again");
  EXPECT_EQ(end(a), 0) << errors();
  EXPECT_EQ(end(again), 0) << text("again.err");
  EXPECT_NE(errors().find("sluice: warning: machine 1 is lost: restart 1 of 3\n"),
            std::string::npos)
      << errors();
}

TEST_F(LaunchNodesTest, ASecretThatCanBeGuessedIsWarnedOf) {
  LaunchOptions guessed = node(0, free_port(), "true");
  guessed.secret = "x";
  guessed.meeting_timeout = milliseconds(100);
  EXPECT_EQ(run(guessed), 5);
  EXPECT_TRUE(errors().starts_with("sluice: warning: the secret of the job has 1 character, and "))
      << errors();
}

TEST_F(LaunchNodesTest, CtrlCEndsALauncherThatWaitsForOthers) {
  for (int number : {0, 1}) {
    const pid_t launcher = begin(node(number, free_port(), "true"));
    std::this_thread::sleep_for(milliseconds(200));
    ::kill(launcher, SIGINT);
    EXPECT_EQ(end(launcher), 130);
  }
}

TEST(ChildProcessTest, NamesSignals) {
  EXPECT_EQ(signal_text(SIGKILL), "signal 9 (Killed)");
  EXPECT_EQ(signal_text(SIGSEGV), "signal 11 (Segmentation fault)");
}

}  // namespace
}  // namespace sluice
