// tests/launch/launch_job_test.cpp tests how the launcher handles processes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "support/run_program.h"
#include "support/sanitized.h"

namespace sluice {
namespace {

using testing::ProgramResult;
using testing::quoted_for_shell;
using testing::run_shell;

ProgramResult launch(const std::string& arguments, const std::string& environment = {}) {
  return run_shell(environment + " " + quoted_for_shell(SLUICE_PROGRAM) + " launch " + arguments);
}

void expect_refused(const std::string& arguments, const std::string& begin,
                    const std::string& environment = {}) {
  const ProgramResult result = launch(arguments, environment);
  EXPECT_EQ(result.exit_code, 2) << arguments;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("sluice: error: " + begin)) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(testing::parts_of(result.err), 3) << result.err;
}

TEST(LaunchCommandTest, RefusesWhatIsMissingOrWrong) {
  expect_refused("", "-n is missing; command 'sluice launch'; ");
  expect_refused("-- train run.toml", "-n is missing; ");
  expect_refused("-n 0 -- train run.toml", "'0' is not a value of -n");
  expect_refused("-n two -- train run.toml", "'two' is not a value of -n");
  expect_refused("-n 2", "there is no command to launch; ");
  expect_refused("-n 2 --", "there is no command to launch; ");
  expect_refused("-n 2 -- plan run.toml",
                 "'plan' cannot be launched; command 'sluice launch'; one of: train, eval");
  expect_refused(
      "-n 2 -- trian run.toml",
      "'trian' is neither a command nor a program on PATH; command 'sluice launch'; give the "
      "path of a program, as ./trian, or a command; did you mean 'train'?");
  expect_refused("-n 2 train run.toml",
                 "unexpected argument 'train'; command 'sluice launch'; write -- before it: sluice "
                 "launch -n 2 -- train run.toml\n");
  expect_refused("-n 2 --max-restarts -1 -- train run.toml",
                 "'-1' is not a value of --max-restarts");
  expect_refused("-n 2 --log-dri logs -- train run.toml",
                 "unknown option '--log-dri'; command 'sluice launch'; did you mean '--log-dir'?");
}

TEST(LaunchCommandTest, RefusesAProgramThatCannotBeStarted) {
  const test::TempDirectory folder;
  const std::string file = folder / "program";
  expect_refused("-n 2 -- " + file, "no such program; " + file + "; check the path");
  test::write_file(file, "no program\n");
  expect_refused("-n 2 -- " + file, "this is not a file that can be executed; " + file + "; ");
  expect_refused("-n 2 -- " + folder.str(), "this is not a file that can be executed; ");
  ::chmod(file.c_str(), 0700);
  expect_refused("-n 2 -- " + file, "cannot execute the program: Exec format error; " + file);
  expect_refused("-n 2 -- program", "'program' is neither a command nor a program on PATH; ");
  expect_refused("-n 2 -- ''", "there is no command to launch; ");
  expect_refused("-n 2 -- program", "cannot execute the program: Exec format error; " + file,
                 "PATH=" + folder.str());
}

TEST(LaunchCommandTest, StartsAProgramByItsPathOrNameWithItsArguments) {
  const test::TempDirectory folder;
  test::write_file(folder / "plan", "#!/bin/sh\necho \"$0 $# $2 $WORLD_SIZE\"\nexit 0\n");
  ::chmod((folder / "plan").c_str(), 0700);
  for (const std::string& word : {folder / "plan", std::string("./plan")}) {
    const ProgramResult result =
        run_shell("cd " + folder.str() + " && " + quoted_for_shell(SLUICE_PROGRAM) +
                  " launch -n 1 -- " + word + " --help 'two words'");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, word + " 2 two words 1\n");
  }
  EXPECT_EQ(launch("-n 1 -- sh -c 'exit 4'").exit_code, 4);
  EXPECT_EQ(launch("-n 1 -- sh -c 'kill -9 $$'").exit_code, 128 + 9);
}

TEST(LaunchCommandTest, AProgramThatNeverJoinsTheJobIsOneError) {
  const auto begin = std::chrono::steady_clock::now();
  for (const char* command : {"true", "sh -c 'test $RANK = 1 || sleep 30'"}) {
    const ProgramResult result = launch("-n 2 --max-restarts 3 -- " + std::string(command));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(result.err.starts_with("sluice: error: process ")) << result.err;
    EXPECT_TRUE(result.err.ends_with(
        " ended with exit code 0 and has not joined the job; command 'sluice launch'; launch a "
        "program that calls sluice::run in every process\n"))
        << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(LaunchCommandTest, RefusesMachinesThatCannotMeet) {
  const test::TempDirectory folder;
  const std::string base = "-n 2 --nnodes 2 ", command = " -- train run.toml";
  expect_refused(base + command, "several machines need --node-rank and --rdzv; ");
  expect_refused(base + "--node-rank 2 --rdzv a:1" + command,
                 "--node-rank 2 is not below --nnodes 2; ");
  for (const char* wrong : {"a", "a:", ":1", "a:0", "a:65536", "a:1x"})
    expect_refused(base + "--node-rank 0 --rdzv " + wrong + command,
                   "'" + std::string(wrong) + "' is not a value of --rdzv; ");
  const std::string there = base + "--node-rank 0 --rdzv 127.0.0.1:1";
  expect_refused(there + command, "launchers on several machines need a shared secret; ");
  expect_refused(there + command, "launchers on several machines need a shared secret; ",
                 "SLUICE_JOB_SECRET=");
  const std::string secret = folder / "secret";
  expect_refused(there + " --secret-file " + secret + command, "cannot open file: No such file");
  test::write_file(secret, "something\n");
  ::chmod(secret.c_str(), 0640);
  expect_refused(there + " --secret-file " + secret + command,
                 "other users than the owner may read or change the secret; ");
  ::chmod(secret.c_str(), 0600);
  test::write_file(secret, " \n");
  expect_refused(there + " --secret-file " + secret + command, "the file of the secret is empty; ");
  expect_refused("-n 2 --rdzv a:1" + command,
                 "--node-rank, --rdzv and --secret-file are for several machines; ");
}

TEST(LaunchCommandTest, ShowsIdenticalErrorsOfAllProcessesOnce) {
  // Every process rejects this alike.
  const ProgramResult result = launch("-n 3 -- train /nonexistent/run.toml");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("sluice: error: ")) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST(LaunchCommandTest, AWrongConfigurationIsRefusedBeforeAnythingIsStarted) {
  const test::TempDirectory folder;
  const std::string config = folder / "run.toml";
  test::write_file(config, "[model]\npath = \"" SLUICE_TEST_DATA
                           "/reference/models/llama_untied\"\n[data]\nfiles = [\"none.txt\"]\n"
                           "[parallelism]\npipeline_parallel_degree = 2\n");
  // Starting 64 processes that load LibTorch takes more than a minute, so errors must come before
  // that.
  const auto refused = [&](const std::string& n, const std::string& options,
                           const std::string& begin, int exit_code = 2) {
    const auto start = std::chrono::steady_clock::now();
    const ProgramResult result =
        launch("-n " + n + " -- train " + quoted_for_shell(config) + options);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_TRUE(result.err.starts_with("sluice: error: " + begin)) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_LT(took.count(), 50) << options;
  };
  refused("64", " --training.stesp=3", "unknown key");
  refused("64", " --log-level loud", "");
  refused("64", "",
          "2 ranks cannot be spread evenly over the 64 processes that sluice launch has ");
  refused("2", "", "", 3);
  refused("2", " --model.path=/nonexistent", "no such file or folder; /nonexistent; ", 3);
}

TEST(LaunchCommandTest, WhatFollowsTheDashesIsNotItsOwn) {
  const ProgramResult help = launch("--help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.out.find("--max-restarts"), std::string::npos);
  EXPECT_EQ(launch("-n 1 -- train --help").out.find("--max-restarts"), std::string::npos);
}

TEST(LaunchCommandTest, ALogReplacesALinkOfItsName) {
  const test::TempDirectory folder;
  const std::string logs = folder / "logs", precious = folder / "precious";
  std::filesystem::create_directory(logs);
  test::write_file(precious, "precious");
  std::filesystem::create_symlink(precious, logs + "/rank_0.log");
  std::filesystem::create_hard_link(precious, logs + "/rank_1.log");
  launch("-n 2 --log-dir " + quoted_for_shell(logs) + " -- sh -c 'echo said; exit 4'");
  EXPECT_EQ(test::read_file(precious), "precious");
  for (const char* log : {"/rank_0.log", "/rank_1.log"}) {
    EXPECT_FALSE(std::filesystem::is_symlink(logs + log));
    EXPECT_EQ(test::read_file(logs + log), "said\n");
  }
}

TEST(LaunchCommandTest, TheLimitOnOpenFilesIsNamed) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer opens files of its own";
  int refused = 0;
  for (int limit = 6; limit <= 24; ++limit) {
    const ProgramResult result =
        run_shell("ulimit -n " + std::to_string(limit) + "; " + quoted_for_shell(SLUICE_PROGRAM) +
                  " launch -n 2 -- sh -c 'exit 4'");
    if (result.exit_code == 4) continue;
    ++refused;
    EXPECT_EQ(result.exit_code, 2) << limit << ": " << result.err;
    EXPECT_NE(result.err.find("Too many open files; "), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("raise the limit (ulimit -n)"), std::string::npos)
        << limit << ": " << result.err;
  }
  EXPECT_GT(refused, 0);
}

TEST(LaunchCommandTest, AProgramOfTheWorkingFolderIsFoundByItsPathAlone) {
  const test::TempDirectory folder;
  test::write_file(folder / "program", "#!/bin/sh\nexit 0\n");
  ::chmod((folder / "program").c_str(), 0700);
  for (const char* path : {"", ":", "/nowhere:", ":/nowhere"}) {
    const ProgramResult result =
        run_shell("cd " + folder.str() + " && PATH=" + path + " " +
                  quoted_for_shell(SLUICE_PROGRAM) + " launch -n 1 -- program");
    EXPECT_NE(result.err.find("'program' is neither a command nor a program on PATH; "),
              std::string::npos)
        << result.err;
  }
}

}  // namespace
}  // namespace sluice
