#include <gtest/gtest.h>
#include <signal.h>

#include "support/sanitized.h"
#include "train_fixture.h"

namespace sluice::testing {
namespace {

// The thread sanitizer writes large files itself and dies of the limit.
#ifdef __SANITIZE_THREAD__
constexpr bool kFilesCanBeLimited = false;
#else
constexpr bool kFilesCanBeLimited = true;
#endif

TEST_F(TrainCommandTest, EverySignalThatStopsFinishesTheStepAndSavesTheWeights) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    fs::remove_all(out());
    const int status = stopped_by({signal});
    ASSERT_TRUE(WIFEXITED(status)) << signal;
    EXPECT_EQ(WEXITSTATUS(status), 75) << signal;
    expect_last_step_is_saved();
  }
}

TEST_F(TrainCommandTest, TheLastLineOfAStoppedRunIsTheCommandThatContinuesIt) {
  const auto last_line = [&](const std::string& options) {
    fs::remove_all(out());
    ended_after(options, "", [](pid_t child) { kill(child, SIGINT); });
    const std::string text = test::read_file(printed());
    return text.substr(text.rfind('\n', text.size() - 2) + 1);
  };
  const std::string run = "sluice train " + config() + " --training.steps 1000000";
  EXPECT_EQ(last_line("--training.steps=1000000 --checkpoint.resume=none"),
            "to continue: " + run + " --checkpoint.resume auto\n");
  EXPECT_EQ(last_line("--training.steps 1000000"), "to continue: " + run + "\n");
  const std::int64_t done = metrics().back().at("step");
  const ProgramResult result =
      run_shell(quoted_for_shell(SLUICE_PROGRAM) + run.substr(std::string("sluice").size()) +
                " --training.steps=" + std::to_string(done + 1));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("resumes from " + out() + "/checkpoint/step-"), std::string::npos)
      << result.out;
  EXPECT_EQ(metrics().back().at("step"), done + 1);
}

TEST_F(TrainCommandTest, ARunUnderNohupOutlivesItsTerminal) {
  const int status = stopped_by({SIGHUP, SIGHUP, SIGTERM}, "trap '' HUP;");
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 75);
  expect_last_step_is_saved();
}

TEST_F(TrainCommandTest, AWorkingFolderThatIsGoneIsSaid) {
  const ProgramResult result =
      run_shell("mkdir " + quoted_for_shell(folder_ / "w") + " && cd " +
                quoted_for_shell(folder_ / "w") + " && rmdir ../w && " +
                quoted_for_shell(SLUICE_PROGRAM) + " train " + quoted_for_shell(config()));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "sluice: error: the working folder no longer exists: No such file or directory; .; "
            "start the run from a folder that exists\n");
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(TrainCommandTest, AClosedPipeEndsTheTextButNotTheRun) {
  const ProgramResult result =
      run_shell("{ " + quoted_for_shell(SLUICE_PROGRAM) + " train " + quoted_for_shell(config()) +
                " --training.steps=50; echo exit $? >&2; } | head -n 1");
  EXPECT_NE(result.out.find("model.path"), std::string::npos) << result.out;
  EXPECT_EQ(result.err,
            "sluice: warning: cannot write to stdout: Broken pipe; the run continues without it "
            "and logs its steps in " +
                out() + "/metrics.jsonl\nexit 0\n");
  EXPECT_EQ(metrics().size(), 50u);
  expect_last_step_is_saved();
}

TEST_F(TrainCommandTest, AFullDiskUnderTheTextDoesNotEndTheRun) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const ProgramResult result = run_shell(quoted_for_shell(SLUICE_PROGRAM) + " train " +
                                         quoted_for_shell(config()) + " >/dev/full");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("No space left on device; the run continues"), std::string::npos);
  expect_last_step_is_saved();
}

TEST_F(TrainCommandTest, AFileLimitUnderTheWeightsIsRefusedBeforeAnythingIsCreated) {
  if (!kFilesCanBeLimited) GTEST_SKIP() << "ThreadSanitizer";
  for (const char* limit : {"0", "64"}) {
    // Through a pipe, because the limit also applies to files of errors.
    const ProgramResult result = run_shell(
        "{ ulimit -f " + std::string(limit) + "; " + quoted_for_shell(SLUICE_PROGRAM) + " train " +
        quoted_for_shell(config()) + " --training.steps=1 2>&1; echo exit $?; } | cat");
    EXPECT_NE(result.out.find("; raise the limit (ulimit -f)\nexit 4\n"), std::string::npos)
        << result.out;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2) << result.out;
    EXPECT_FALSE(fs::exists(out()));
  }
}

TEST_F(TrainCommandTest, AClosedStdoutEndsTheTextButNotTheRun) {
  const std::string program = quoted_for_shell(SLUICE_PROGRAM) + " train ";
  const ProgramResult result = run_shell(program + quoted_for_shell(config()) + " >&-");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err,
            "sluice: warning: cannot write to stdout: Bad file descriptor; the run continues "
            "without it and logs its steps in " +
                out() + "/metrics.jsonl\n");
  EXPECT_EQ(metrics().size(), 3u);  // parses every line
  expect_last_step_is_saved();
  fs::remove_all(out());
  const std::string drawn = " --model.path= --model.config=" + kModel + "/config.json";
  EXPECT_EQ(run_shell(program + quoted_for_shell(config()) + drawn + " <&- >&- 2>&-").exit_code, 0);
  EXPECT_EQ(metrics().size(), 3u);
  expect_last_step_is_saved();
}

TEST_F(TrainCommandTest, HelpNamesTheProgramThatWasStarted) {
  const std::string folder = fs::path(SLUICE_PROGRAM).parent_path();
  const ProgramResult own = run_shell(quoted_for_shell(folder + "/sluice-run") + " --help");
  EXPECT_EQ(own.exit_code, 0);
  EXPECT_NE(own.out.find("Usage: sluice-run "), std::string::npos) << own.out;
  const ProgramResult sibling = train({"--frobnicate"});
  EXPECT_NE(sibling.err.find("command 'sluice train'"), std::string::npos) << sibling.err;
}

TEST_F(TrainCommandTest, AnEmptyNameOfAConfigurationIsRefused) {
  const ProgramResult unnamed = run_sluice({"train", ""});
  EXPECT_EQ(unnamed.exit_code, 2);
  EXPECT_EQ(unnamed.err,
            "sluice: error: the name of the configuration is empty; command 'sluice train'; name a "
            ".toml file\n");
}

TEST_F(TrainCommandTest, MetricsThatCannotBeWrittenLeaveWholeLinesAndCostNoWeights) {
  if (!kFilesCanBeLimited) GTEST_SKIP() << "ThreadSanitizer";
  // The files of four ranks stay below the limit. 300 lines with all norms exceed it.
  const ProgramResult result = run_shell("ulimit -f 900; " + quoted_for_shell(SLUICE_PROGRAM) +
                                         " train " + quoted_for_shell(config()) +
                                         " --training.steps=300 --metrics.parameter_norms=true"
                                         " --parallelism.pipeline_parallel_degree=4 >/dev/null");
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_EQ(result.err.rfind("sluice: warning: ", 0), 0u) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 2) << result.err;
  EXPECT_NE(result.err.find("\nsluice: error: cannot write the metrics of metrics.folder"),
            std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("File too large"), std::string::npos) << result.err;
  EXPECT_FALSE(metrics().empty());  // parses every line
  EXPECT_TRUE(fs::exists(out() + "/checkpoint/step-00000300/config.json"));
}

TEST_F(TrainCommandTest, MetricsThatAreAFolderAreRefusedBeforeAnythingIsCreated) {
  fs::create_directories(out() + "/metrics.jsonl");
  const ProgramResult result = train();
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("metrics.jsonl"), std::string::npos) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_FALSE(fs::exists(out() + "/checkpoint"));
}

TEST_F(TrainCommandTest, DataWithoutACountedLabelIsRefusedBeforeAnythingIsCreated) {
  const std::string rows = folder_ / "rows.jsonl";
  const std::string data = "--data.files=['" + rows + "']";
  const std::string none = "{\"input_ids\": [1, 2, 3], \"labels\": [5, -100, -100]}\n";
  const std::string some = "{\"input_ids\": [1, 2, 3]}\n";
  test::write_file(rows, none + none);
  expect_refused({data}, 3, "no row of the file has a label that is counted; " + rows);

  std::string text;
  for (int i = 0; i < 12; ++i) text += i < 8 ? some : none;
  test::write_file(rows, text);
  expect_refused({data, "--data.shuffle=false"}, 3,
                 "step 3, " + rows + ":9, " + rows + ":10, " + rows + ":11, " + rows + ":12;");

  const ProgramResult mixed =
      train({data, "--data.shuffle=false", "--training.local_batch_size=12"});
  EXPECT_EQ(mixed.exit_code, 0) << mixed.err;
  EXPECT_EQ(metrics()[0]["tokens"], 8 * 2);
}

TEST_F(TrainCommandTest, ABatchWithoutACountedLabelThatWasNotForeseenEndsTheRun) {
  const std::string rows = folder_ / "rows.jsonl";
  // More text than is read before the first step.
  std::string text;
  const std::string filler(std::size_t{4} << 20, 'x');
  for (int i = 0; i < 5; ++i)
    text += "{\"input_ids\": [1, 2, 3], \"filler\": \"" + filler + "\"}\n";
  for (int i = 0; i < 4; ++i) text += "{\"input_ids\": [1, 2], \"labels\": [-100, -100]}\n";
  test::write_file(rows, text);
  const ProgramResult result = train({"--data.files=['" + rows + "']", "--data.shuffle=false",
                                      "--training.local_batch_size=1",
                                      "--training.microbatch_size=1", "--training.steps=9"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 2) << result.err;
  EXPECT_NE(result.err.find("step 6, " + rows + ":6;"), std::string::npos) << result.err;
  EXPECT_EQ(metrics().size(), 5u);
  expect_last_step_is_saved();
}

TEST_F(TrainCommandTest, ABadRowLateInARunCostsNoStepBeforeIt) {
  const std::string rows = folder_ / "rows.jsonl";
  std::string text = "{\"input_ids\": [1, 2, 3], \"filler\": \"" +
                     std::string(std::size_t{16} << 20, 'x') + "\"}\n";
  for (int i = 2; i <= 14; ++i) text += "{\"input_ids\": [1, 2, " + std::to_string(i) + "]}\n";
  test::write_file(rows, text + "{\"input_ids\": [1, 2, 256]}\n");
  const std::vector<std::string> options = {"--data.files=['" + rows + "']",
                                            "--data.shuffle=false"};
  // The fourth step reads rows 13 to 16.
  const ProgramResult failed = train({options[0], options[1], "--training.steps=9"});
  EXPECT_EQ(failed.exit_code, 3) << failed.err;
  EXPECT_EQ(failed.err,
            "sluice: warning: fields of rows that are not read: filler\n"
            "sluice: error: input_ids[2] = 256 is outside of the vocabulary of 256; step 4, " +
                rows + ":15; were the rows made with another tokenizer?\n");
  EXPECT_NE(failed.out.find("\nended by an error after step 3 of 9\n"), std::string::npos);
  EXPECT_NE(failed.out.find("\nweights: " + out() + "/checkpoint/step-00000003\n"),
            std::string::npos)
      << failed.out;
  expect_last_step_is_saved();

  const std::string folder = folder_ / "three";
  ASSERT_EQ(train({options[0], options[1], "--training.steps=3", "--checkpoint.folder=" + folder})
                .exit_code,
            0);
  const std::string three = folder + "/step-00000003";
  for (const auto& entry : fs::recursive_directory_iterator(three)) {
    const std::string file = entry.path().lexically_relative(three);
    if (entry.is_directory() || file == "manifest.json") continue;  // names its run
    EXPECT_EQ(test::read_file(entry.path()),
              test::read_file(out() + "/checkpoint/step-00000003/" + file))
        << file;
  }
}

TEST_F(TrainCommandTest, DataThatVanishesIsOneLineWithTheStepAndCostsNoWeights) {
  const int status =
      ended_after("--training.steps=1000000", "", [&](pid_t) { fs::remove(folder_ / "text.txt"); });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
  const std::string line = test::read_file(err());
  EXPECT_EQ(line.rfind("sluice: error: cannot open file: No such file or directory; step ", 0), 0u)
      << line;
  EXPECT_NE(line.find(", " + (folder_ / "text.txt") + "; "), std::string::npos) << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  expect_last_step_is_saved();
}

TEST_F(TrainCommandTest, MetricsThatAreRemovedAreSaidToBeGoneAndCostNoWeights) {
  const int status = ended_after("--training.steps=300", "", [&](pid_t) { fs::remove_all(out()); });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 2);
  const std::string line = "the metrics of this run are gone: their file was removed; " + out() +
                           "/metrics.jsonl; leave the file alone while a run writes it";
  EXPECT_EQ(test::read_file(err()),
            "sluice: warning: " + line +
                "; the run continues without metrics\nsluice: error: " + line + "\n");
  EXPECT_TRUE(fs::exists(out() + "/checkpoint/step-00000300/config.json"));
}

TEST_F(TrainCommandTest, ASecondRunInTheFoldersOfOneThatIsAliveIsRefused) {
  const int status = ended_after("--training.steps=1000000", "", [&](pid_t child) {
    const auto refused = [&](const std::vector<std::string>& options, int exit_code,
                             const std::string& says) {
      const ProgramResult second = train(options);
      EXPECT_EQ(second.exit_code, exit_code) << second.err;
      EXPECT_EQ(second.err, "sluice: error: " + says + "\n");
    };
    refused({}, 4,
            "another run saves its checkpoints here; " + out() +
                "/checkpoint; end it, or set checkpoint.folder to another folder");
    refused({"--checkpoint.folder=" + (folder_ / "other/checkpoint")}, 2,
            "another run writes its metrics here; " + out() +
                "; end it, or set metrics.folder to another folder");
    EXPECT_FALSE(fs::exists(folder_ / "other"));
    kill(child, SIGTERM);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 75);
  expect_last_step_is_saved();
  const std::string one_more = std::to_string(metrics().back()["step"].get<int>() + 1);
  EXPECT_EQ(train({"--training.steps=" + one_more}).exit_code, 0);
}

TEST_F(TrainCommandTest, OneFolderForCheckpointsAndMetricsIsFree) {
  EXPECT_EQ(train({"--metrics.folder=" + out(), "--checkpoint.folder=" + out()}).exit_code, 0);
}

TEST_F(TrainCommandTest, ASignalAfterTheWeightsWerePublishedChangesNothing) {
  const std::string last = out() + "/checkpoint/step-00000005";
  for (int i = 0; i < 5; ++i) {
    fs::remove_all(out());
    const int status = ended_after("--training.steps=5", "", [&](pid_t child) {
      wait_until([&] { return fs::exists(last); }, std::chrono::milliseconds(1));
      kill(child, SIGTERM);
    });
    ASSERT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), 0);
    expect_last_step_is_saved();
  }
}

TEST_F(TrainCommandTest, AModelThatCannotFitIsRefusedBeforeAnythingIsCreated) {
  auto config = nlohmann::json::parse(test::read_file(kModel + "/config.json"));
  config["num_hidden_layers"] = 1000;
  config["hidden_size"] = config["intermediate_size"] = 1 << 18;
  config["head_dim"] = 16;
  test::write_file(folder_ / "large.json", config.dump());
  expect_refused({"--model.path=", "--model.config=" + (folder_ / "large.json")}, 7,
                 "training needs ");
}

TEST_F(TrainCommandTest, RanksThatCannotFitAreRefusedBeforeAnythingIsMadeForThem) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer needs more address space than the limit";
  const auto began = std::chrono::steady_clock::now();
  // 65536 ranks would need megabytes each. 3 GiB of address space could not even hold their stacks.
  const ProgramResult result =
      run_shell("ulimit -v 3000000; " + quoted_for_shell(SLUICE_PROGRAM) + " train " +
                quoted_for_shell(config()) + " --parallelism.data_parallel_degree=65536");
  EXPECT_EQ(result.exit_code, 7) << result.err;
  EXPECT_EQ(result.err.rfind("sluice: error: training needs ", 0), 0u) << result.err;
  EXPECT_FALSE(fs::exists(out()));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
}

TEST_F(TrainCommandTest, OneOfSeveralProcessesThatDoesNotKnowWhichIsRefusedButMayPlan) {
  const std::string program = "WORLD_SIZE=2 " + quoted_for_shell(SLUICE_PROGRAM);
  const ProgramResult result = run_shell(program + " train " + quoted_for_shell(config()));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err.rfind("sluice: error: ", 0), 0u) << result.err;
  EXPECT_NE(result.err.find("RANK"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(out()));
  EXPECT_EQ(run_shell(program + " plan " + quoted_for_shell(config())).exit_code, 0);
}

TEST_F(TrainCommandTest, MemoryThatRunsOutIsNamedWithItsPlace) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer needs more address space than the limit";
  // The predicted 1.43 GiB fit into the address space, but not beside libraries and stacks.
  const ProgramResult result =
      run_shell("ulimit -v 1500000; " + quoted_for_shell(SLUICE_PROGRAM) + " train " +
                quoted_for_shell(config()) +
                " --training.local_batch_size=4096 --training.microbatch_size=4096 "
                "--training.steps=1 >/dev/null");
  EXPECT_EQ(result.exit_code, 7) << result.err;
  const std::string line = result.err.substr(result.err.find("sluice: error: "));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << result.err;
  EXPECT_EQ(line.rfind("sluice: error: out of memory: ", 0), 0u) << line;
  EXPECT_NE(line.find("could not be allocated ("), std::string::npos) << line;
  EXPECT_NE(line.find("B are predicted for the rank); rank "), std::string::npos) << line;
  EXPECT_NE(line.find("(stage "), std::string::npos) << line;
  EXPECT_NE(line.find("training.microbatch_size"), std::string::npos) << line;
}

TEST_F(TrainCommandTest, ALinkOutOfTheModelsDirectoryIsRefusedBeforeAnythingIsMade) {
  const std::string model = folder_ / "model", key = folder_ / "id_rsa";
  fs::copy(kModel, model, fs::copy_options::recursive);
  test::write_file(key, "PRIVATE KEY");
  for (const char* file : {"merges.txt", "chat_template.jinja", "generation_config.json"}) {
    fs::remove(model + "/" + file);
    fs::create_symlink(key, model + "/" + file);
    expect_refused({"--model.path=" + model}, 3, "the file is a symbolic link to '");
    EXPECT_FALSE(fs::exists(out() + "/checkpoint"));
    fs::remove(model + "/" + file);
  }
  // Weights are read, not copied, so they may be on another disk.
  fs::rename(model + "/model.safetensors", folder_ / "weights");
  fs::create_symlink(folder_ / "weights", model + "/model.safetensors");
  const ProgramResult result = train({"--model.path=" + model});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(TrainCommandTest, ALimitOnAddressSpaceThatLibTorchDoesNotFitIntoIsNamed) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer needs more address space than the limit";
  for (const char* limit : {"200000", "400000", "600000"}) {
    const ProgramResult result =
        run_shell("ulimit -v " + std::string(limit) + "; " + quoted_for_shell(SLUICE_PROGRAM) +
                  " train " + quoted_for_shell(config()));
    EXPECT_EQ(result.exit_code, 7) << limit << ": " << result.err;
    EXPECT_NE(result.err.find("; ulimit -v; raise the limit"), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST_F(TrainCommandTest, WithoutProcOneErrorSaysSo) {
  const std::string in_namespace = "unshare --user --map-root-user --mount sh -c ";
  if (run_shell(in_namespace + "'mount -t tmpfs none /proc'").exit_code != 0)
    GTEST_SKIP() << "this machine lets no user mount anything in a namespace";
  for (const char* words : {" train run.toml", " launch -n 2 -- train run.toml"}) {
    const ProgramResult result = run_shell(
        in_namespace + quoted_for_shell("mount -t tmpfs none /proc && cd " + folder_.str() +
                                        " && " + quoted_for_shell(SLUICE_PROGRAM) + words));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find("; /proc/self/exe; mount /proc"), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace sluice::testing
