#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.h"
#include "support/run_program.h"

namespace sluice {
namespace {

using Outcome = testing::ProgramResult;

class CommandLineTest : public ::testing::Test {
 protected:
  // `arguments` and `environment` are words of sh.
  Outcome run(const std::string& arguments, const std::string& environment = {},
              const std::string& program = SLUICE_PROGRAM) {
    return testing::run_shell("cd '" + folder_.str() + "' && " + environment + " '" + program +
                              "' " + arguments);
  }
  void expect_error(const std::string& arguments, int code, const std::string& line) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, code) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_EQ(outcome.err, "sluice: error: " + line + "\n");
  }
  // Writes a configuration that `plan` and `check` accept. With kShort there is no warning.
  static constexpr const char* kShort = "[training]\nseq_len = 64\n";
  void write_config(const std::string& more = {}) {
    test::write_file(folder_ / "corpus/a.txt", "some text");
    test::write_file(folder_ / "run.toml",
                     "[model]\nconfig = \"" + std::string(SLUICE_TEST_DATA) +
                         "/reference/models/llama_untied/config.json\"\n[data]\nfiles = "
                         "[\"corpus/*.txt\"]\n[parallelism]\npipeline_parallel_degree = 2\n" +
                         more);
  }
  // Joins wrapped lines of the help.
  static std::string unfolded(const std::string& help) {
    return replace_all(help, "\n" + std::string(30, ' '), " ");
  }
  test::TempDirectory folder_;
};

TEST_F(CommandLineTest, AnswersHelpAndVersion) {
  const Outcome help = run("--help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.err, "");
  for (const char* command : {"train", "plan", "split", "schedule", "launch", "eval", "config",
                              "checkpoint", "data", "debug"}) {
    EXPECT_NE(help.out.find(std::string("\n  ") + command + " "), std::string::npos) << command;
    const Outcome own = run(std::string(command) + " --help");
    EXPECT_EQ(own.exit_code, 0) << command;
    EXPECT_FALSE(own.out.empty()) << command;
    EXPECT_EQ(own.out.find("\n\n\n"), std::string::npos) << own.out;
    const Outcome asked = run(std::string("help ") + command);
    EXPECT_EQ(asked.exit_code, 0) << command;
    EXPECT_EQ(asked.out, own.out);
  }
  EXPECT_EQ(run("help").out, help.out);
  EXPECT_EQ(run("help config show").out, run("config show --help").out);
  EXPECT_EQ(run("help help").exit_code, 0);
  for (const char* asked : {"help -h", "help --help"}) {
    EXPECT_EQ(run(asked).exit_code, 0) << asked;
    EXPECT_EQ(run(asked).out, run("help help").out) << asked;
  }
  expect_error("help trian", 2,
               "unknown command 'trian'; command 'sluice help'; did you mean 'train'?");
  const Outcome text = run("--version");
  EXPECT_EQ(run("-V").out, text.out);
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_TRUE(text.out.starts_with("sluice ")) << text.out;
  for (const char* arguments : {"--version --json", "--json --version"}) {
    const auto json = nlohmann::json::parse(run(arguments).out);
    for (const char* key :
         {"sluice", "torch", "torch_found", "torch_folder", "compiler", "backends"}) {
      EXPECT_TRUE(json.contains(key)) << key;
    }
  }
}

TEST_F(CommandLineTest, PrintsHelpThatFitsInto100Columns) {
  for (const char* command :
       {"", "help", "train", "eval", "checkpoint", "plan", "config", "config check", "config show",
        "config reference", "split", "schedule", "launch", "data", "data tokenize", "data inspect",
        "debug", "debug flight"}) {
    std::istringstream lines(run(std::string(command) + " --help").out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  }
  // A wrapped description is aligned with its first line.
  const std::string help = run("launch --help").out;
  EXPECT_NE(help.find("\n                              shows process 0 and all errors\n"),
            std::string::npos)
      << help;
}

TEST_F(CommandLineTest, HelpsWithEveryCommandAndLaunchesNone) {
  std::string names = run("").err;
  names = names.substr(names.find("one of: ") + 8);
  std::istringstream commands(names);
  int count = 0;
  for (std::string name; std::getline(commands >> std::ws, name, ','); ++count) {
    while (name.ends_with('\n')) name.pop_back();
    EXPECT_EQ(run("help " + name).exit_code, 0) << name;
    EXPECT_EQ(run("help " + name).out, run(name + " --help").out) << name;
    if (name == "train" || name == "eval" || name == "sample") continue;
    expect_error("launch -n 1 -- " + name, 2,
                 "'" + name +
                     "' cannot be launched; command 'sluice launch'; one of: train, eval, "
                     "sample, or a program by its path, as ./" +
                     name);
  }
  EXPECT_GE(count, 17);
}

TEST_F(CommandLineTest, TakesEmptyDefaultsThatAreWritten) {
  write_config("[training]\nseq_len = 64\n[validation]\nfiles = []\nprompts = []\n");
  const Outcome outcome =
      run("config check run.toml --model.loss_output= --model.transformer_layer_cls=");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
}

TEST_F(CommandLineTest, NamesTheNearestCommandAndOption) {
  write_config();
  expect_error("pln run.toml", 2, "unknown command 'pln'; command 'sluice'; did you mean 'plan'?");
  expect_error("config chek run.toml", 2,
               "unknown command 'chek'; command 'sluice config'; did you mean 'check'?");
  expect_error("--vrsion", 2,
               "unknown option '--vrsion'; command 'sluice'; did you mean '--version'?");
  expect_error("plan run.toml --jsno", 2,
               "unknown option '--jsno'; command 'sluice plan'; did you mean '--json'?");
  expect_error("plan run.toml --steps 3", 2,
               "unknown option '--steps'; command 'sluice plan'; did you mean '--training.steps'?");
  expect_error("plan run.toml --training.stesp=3", 2,
               "unknown key 'training.stesp'; --training.stesp; did you mean 'steps'?");
}

TEST_F(CommandLineTest, RefusesWhatIsMissingOrTooMuch) {
  write_config();
  expect_error(
      "nonsense plan run.toml", 2,
      "unknown command 'nonsense'; command 'sluice'; one of: train, eval, sample, checkpoint, "
      "plan, config, "
      "split, schedule, launch, data, debug, metrics, compare, graph, init, report, help, "
      "completion");
  for (const char* command : {"plan", "config check", "config show", "config reference"}) {
    expect_error(std::string(command) + " ''", 2,
                 "the name of the configuration is empty; command 'sluice " + std::string(command) +
                     "'; name a .toml file");
  }
  expect_error("config", 2,
               "no command given; command 'sluice config'; one of: check, show, import, reference");
  EXPECT_EQ(run("").exit_code, 2);
  EXPECT_EQ(run("plan").exit_code, 2);
  expect_error("plan run.toml more.toml", 2,
               "unexpected argument 'more.toml'; command 'sluice plan'; see 'sluice plan --help'");
  expect_error("--json plan run.toml", 2,
               "--json is before the command; write it after the command, or with --version");
  expect_error("plan run.toml --training.steps", 2,
               "no value after --training.steps; command line; "
               "write --training.steps VALUE or --training.steps=VALUE");
}

TEST_F(CommandLineTest, SaysWhatIsNotBuiltYet) {
  write_config();
  expect_error("plan run.toml --model.rewrites false", 2,
               "model.rewrites = false is not built yet; --model.rewrites; write true");
}

TEST_F(CommandLineTest, PlanDrawsItsStep) {
  write_config(kShort);
  EXPECT_EQ(run("plan run.toml --draw step.svg --critical-path").exit_code, 0);
  EXPECT_NE(test::read_file(folder_ / "step.svg").find("<title>1F1B of llama</title>"),
            std::string::npos);
  EXPECT_NE(test::read_file(folder_ / "step.svg").find("<path class=\"path\""), std::string::npos);
  EXPECT_EQ(run("plan run.toml --flops 1e9 --draw step.html").exit_code, 0);
  EXPECT_NE(test::read_file(folder_ / "step.html").find("\"unit\":\" ms\""), std::string::npos);
  const std::string one = test::read_file(folder_ / "step.svg");
  EXPECT_NE(one.find("<desc>2 ranks, 2 stages"), std::string::npos) << one;
  EXPECT_EQ(run("plan run.toml --parallelism.data_parallel_degree 2 --draw step.svg").exit_code, 0);
  const std::string two = test::read_file(folder_ / "step.svg");
  EXPECT_NE(two.find("<desc>4 ranks, 2 to a lane, 2 stages"), std::string::npos) << two;
  expect_error(
      "plan run.toml --draw step.png", 2,
      "'step.png' is not a kind of picture; --draw; name a file that ends in .svg, .html or "
      ".json");
  expect_error("plan run.toml --draw no/step.svg", 2,
               "cannot write the file: No such file or directory; no/step.svg; make its folder "
               "first, or give --draw another one");
  expect_error("plan run.toml --critical-path", 2,
               "--critical-path needs --draw; command 'sluice plan'; give --draw too");
  EXPECT_EQ(run("plan run.toml --compare --draw step.svg").exit_code, 2);
}

TEST_F(CommandLineTest, PlansAndChecksAndShows) {
  write_config(kShort);
  for (const char* arguments : {"plan run.toml", "config check run.toml", "config show run.toml",
                                "config show", "config reference"}) {
    const Outcome text = run(arguments);
    EXPECT_EQ(text.exit_code, 0) << arguments << text.err;
    EXPECT_EQ(text.err, "") << arguments;
    EXPECT_FALSE(text.out.empty()) << arguments;
    EXPECT_EQ(text.out.find('\x1b'), std::string::npos) << "colours without a terminal";
    const Outcome json = run(std::string(arguments) + " --json");
    EXPECT_EQ(json.exit_code, 0) << arguments;
    EXPECT_EQ(json.err, "") << arguments;
    EXPECT_TRUE(nlohmann::json::accept(json.out)) << arguments << json.out;
  }
}

TEST_F(CommandLineTest, PlanAndSplitPrintTheSamePartition) {
  write_config(kShort);
  const auto plan = nlohmann::ordered_json::parse(
      run("plan run.toml --json --parallelism.pipeline_parallel_schedule zbvzerobubble").out);
  const auto split = nlohmann::ordered_json::parse(
      run("split --json --pp 2 --schedule ZBVZeroBubble --microbatch-size 1 --seq-len 64 --model "
          "'" +
          std::string(SLUICE_TEST_DATA) + "/reference/models/llama_untied/config.json'")
          .out);
  EXPECT_EQ(plan.at("split").dump(), split.dump());
  EXPECT_EQ(plan.at("split").at("stages").at(3).at("output_shape").at(2), 256);
}

TEST_F(CommandLineTest, PlanAndScheduleProveAndPredictInTheSameWords) {
  write_config(kShort);
  const auto plan = nlohmann::json::parse(run("plan run.toml --json").out);
  const auto schedule = nlohmann::json::parse(
      run("schedule --name 1F1B --pp 2 --microbatches 8 --lower --check --simulate --json "
          "--timeline")
          .out);
  for (const char* part : {"check", "simulate"}) {
    for (const auto& [key, value] : plan.at(part).items()) {
      EXPECT_TRUE(schedule.contains(key)) << key;
    }
  }
  for (const char* own : {"rows", "timeline", "live"}) EXPECT_TRUE(schedule.contains(own)) << own;
  EXPECT_EQ(plan.at("check").size() + plan.at("simulate").size() + 3, schedule.size());
  EXPECT_EQ(plan.at("simulate").at("makespan"), schedule.at("makespan"));
}

TEST_F(CommandLineTest, PlanAndCheckWarnOnStderr) {
  write_config(kShort);
  const std::string warning =
      "sluice: warning: lr_scheduler.warmup_steps = 101 is more than training.steps = 100: the "
      "rate never reaches optimizer.lr; --lr_scheduler.warmup_steps\n";
  for (const char* command : {"plan run.toml", "plan run.toml --json", "config check run.toml"}) {
    const Outcome outcome = run(std::string(command) + " --lr_scheduler.warmup_steps 101");
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_EQ(outcome.err, warning) << command;
  }
}

TEST_F(CommandLineTest, PlanAndCheckWarnOfMemoryThatTheMachineDoesNotHave) {
  write_config(kShort);
  const std::string huge =
      " --training.local_batch_size 1048576 --training.microbatch_size 1048576 "
      "--training.seq_len 1073741824";
  for (const char* command : {"plan run.toml", "config check run.toml"}) {
    const Outcome outcome = run(command + huge);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("\nsluice: warning: training needs "), std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find("all 2 ranks together; this machine has "), std::string::npos);
  }
  const auto json = nlohmann::json::parse(run("plan run.toml --json" + huge).out);
  EXPECT_EQ(json.at("warnings").size(), 2u);
  for (const auto& rank : json.at("memory")) EXPECT_GT(rank.at("total_bytes"), 1e18);
}

TEST_F(CommandLineTest, OverridesMayStandAnywhereAfterTheCommand) {
  write_config("[training]\nlocal_batch_size = 4\n");
  const std::string expected = "{\"value\":6,\"origin\":\"--training.local_batch_size\"}";
  for (const char* arguments : {"config show --json run.toml --training.local_batch_size 6",
                                "config show --training.local_batch_size=6 run.toml --json",
                                "config --training.local_batch_size 6 show --json run.toml"}) {
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.exit_code, 0) << arguments << outcome.err;
    EXPECT_EQ(nlohmann::ordered_json::parse(outcome.out)["training.local_batch_size"].dump(),
              expected);
  }
  const Outcome variable = run("config show run.toml --json", "SLUICE_TRAINING_STEPS=5");
  EXPECT_EQ(nlohmann::json::parse(variable.out)["training.steps"]["origin"],
            "SLUICE_TRAINING_STEPS");
}

TEST_F(CommandLineTest, CheckRefusesFilesThatAreNotThere) {
  write_config();
  expect_error("config check run.toml --data.files '[\"none/*.txt\"]'", 3,
               "no file matches 'none/*.txt'; --data.files; there is no folder 'none': correct the "
               "path (relative paths in a configuration file start at its folder, others at the "
               "working folder)");
  expect_error("config check none.toml", 2,
               "cannot open file: No such file or directory; none.toml; check the path");
  EXPECT_EQ(run("config check run.toml --model.config none.json").exit_code, 3);
}

TEST_F(CommandLineTest, DrawsARefusedScheduleBeforeTheErrorLine) {
  write_config("pipeline_parallel_schedule_csv = \"bad.csv\"\n[training]\nlocal_batch_size = 1\n");
  test::write_file(folder_ / "bad.csv", "0B0,0F0\n1F0,1B0\n");
  for (const char* arguments : {"plan run.toml", "plan run.toml --json", "config check run.toml"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 3) << arguments;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find('^'), std::string::npos) << outcome.err;
    const std::size_t line = outcome.err.find("sluice: error: ");
    ASSERT_NE(line, std::string::npos);
    EXPECT_EQ(outcome.err.find('\n', line), outcome.err.size() - 1) << "the last line";
  }
}

TEST_F(CommandLineTest, ReplacesItselfByTheProgramBesideIt) {
  const std::string alone = folder_ / "bin/sluice", beside = folder_ / "bin/sluice-run";
  std::filesystem::create_directories(folder_ / "bin");
  std::filesystem::copy_file(SLUICE_PROGRAM, alone);
  const Outcome missing = run("train run.toml", {}, alone);
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_EQ(missing.err,
            "sluice: error: 'sluice train' needs the program 'sluice-run'; " + beside +
                " does not exist; build with LibTorch: cmake -DSLUICE_WITH_TORCH=ON\n");

  test::write_file(beside, "#!/bin/sh\nfor a in \"$@\"; do echo \"[$a]\"; done\nexit 42\n");
  std::filesystem::permissions(beside, std::filesystem::perms::owner_all);
  std::filesystem::create_symlink(alone, folder_ / "link");
  for (const std::string& program : {alone, folder_ / "link"}) {
    const Outcome outcome = run("train run.toml --training.steps 3 'a b' -- --help", {}, program);
    EXPECT_EQ(outcome.exit_code, 42);
    EXPECT_EQ(outcome.out, "[train]\n[run.toml]\n[--training.steps]\n[3]\n[a b]\n[--]\n[--help]\n");
  }
}

// sluice-run loads LibTorch, which is slow.
TEST_F(CommandLineTest, RefusesAWrongConfigurationBeforeTheProgramBesideItStarts) {
  const std::string alone = folder_ / "bin/sluice", beside = folder_ / "bin/sluice-run";
  std::filesystem::create_directories(folder_ / "bin");
  std::filesystem::copy_file(SLUICE_PROGRAM, alone);
  test::write_file(beside, "#!/bin/sh\necho started\n");
  std::filesystem::permissions(beside, std::filesystem::perms::owner_all);
  write_config();
  for (const char* command : {"train", "eval"}) {
    const Outcome wrong = run(std::string(command) + " run.toml --training.stpes 4", {}, alone);
    EXPECT_EQ(wrong.exit_code, 2) << command;
    EXPECT_EQ(wrong.out, "") << command;
    EXPECT_EQ(wrong.err,
              "sluice: error: unknown key 'training.stpes'; --training.stpes; did you mean "
              "'steps'?\n");
    EXPECT_EQ(run(std::string(command) + " run.toml --training.steps 4", {}, alone).out,
              "started\n");
  }
}

TEST_F(CommandLineTest, ReportsAllKeysOfAnotherLibraryAtOnce) {
  test::write_file(folder_ / "run.toml", R"([job]
description = "mine"
[model]
flavor = "8B"
[lr_scheduler]
decay_type = "cosine"
[parallelism]
data_parallel_shard_degree = 2
expert_tensor_parallel_degree = 1
sequence_parallel_degree = 1
[checkpoint]
async_mode = "async"
[validation]
freq = 10
)");
  const Outcome outcome = run("config check run.toml");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  std::istringstream lines(outcome.err);
  std::vector<std::string> keys;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_NE(line.find("torchtitan's name, which here is "), std::string::npos) << line;
    EXPECT_EQ(testing::parts_of(line + "\n"), 3) << line;
    keys.push_back(line.substr(0, line.find(';')));
  }
  std::vector<std::string> expected;
  for (const char* key :
       {"job.description", "model.flavor", "lr_scheduler.decay_type",
        "parallelism.data_parallel_shard_degree", "parallelism.expert_tensor_parallel_degree",
        "parallelism.sequence_parallel_degree", "checkpoint.async_mode", "validation.freq"})
    expected.push_back("sluice: error: unknown key '" + std::string(key) + "'");
  EXPECT_EQ(keys, expected);
}

TEST_F(CommandLineTest,
       TellsTheAllocatorOfTheProgramBesideItToKeepMemoryUnlessItsUserSaysOtherwise) {
  const std::string alone = folder_ / "bin/sluice", beside = folder_ / "bin/sluice-run";
  std::filesystem::create_directories(folder_ / "bin");
  std::filesystem::copy_file(SLUICE_PROGRAM, alone);
  test::write_file(beside, "#!/bin/sh\necho \"$GLIBC_TUNABLES\"\n");
  std::filesystem::permissions(beside, std::filesystem::perms::owner_all);
  const std::string ours =
      "glibc.malloc.mmap_threshold=1073741824:"
      "glibc.malloc.trim_threshold=4294967296:glibc.malloc.top_pad=67108864";
  EXPECT_EQ(run("train run.toml", {}, alone).out, ours + ":glibc.malloc.hugetlb=1\n");
  const std::string given = "glibc.malloc.hugetlb=0:glibc.malloc.arena_max=2";
  EXPECT_EQ(run("train run.toml", "GLIBC_TUNABLES=" + given, alone).out, given + ":" + ours + "\n");
}

TEST_F(CommandLineTest, SaysWhenTheResultCannotBeWritten) {
  write_config();
  for (const char* arguments :
       {"config reference", "config check run.toml", "config show", "plan run.toml",
        "split --layers 8 --pp 2", "schedule --name 1F1B --pp 40 --microbatches 80",
        "schedule --name 1F1B --pp 2 --microbatches 2", "--help", "train --help", "--version"}) {
    const Outcome outcome = run(std::string(arguments) + " >/dev/full");
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(outcome.err,
              "sluice: error: cannot write the result: No space left on device; stdout; free some "
              "space there, or send it elsewhere\n")
        << arguments;
  }
  EXPECT_EQ(
      run("config reference >&-").err,
      "sluice: error: cannot write the result: Bad file descriptor; stdout; send it to a file "
      "or a terminal that can be written\n");
}

TEST_F(CommandLineTest, OutputFileDoesNotReuseClosedStandardStreams) {
  write_config();
  const std::string out = folder_ / "out.csv";
  // If the output file got the number of a closed standard stream, all messages would be written
  // into it.
  const Outcome written =
      run("schedule --name 1F1B --pp 2 --microbatches 2 --out out.csv >&- 2>&-");
  EXPECT_EQ(written.exit_code, 0);
  EXPECT_EQ(test::read_file(out), run("schedule --name 1F1B --pp 2 --microbatches 2").out);
  EXPECT_EQ(run("plan run.toml <&- >&-").exit_code, 2);
  EXPECT_EQ(run("plan run.toml <&- 2>&-").exit_code, 0);
}

TEST_F(CommandLineTest, TakesAConfigurationFromAProgramButWaitsForNoPipe) {
  write_config();
  const Outcome piped = run("config show --json /dev/stdin < /dev/null");
  EXPECT_EQ(piped.exit_code, 0) << piped.err;
  const Outcome written = testing::run_shell("cd '" + folder_.str() + "' && cat run.toml | '" +
                                             SLUICE_PROGRAM "' config show /dev/stdin");
  EXPECT_EQ(written.exit_code, 0) << written.err;
  const std::string csv = std::string("schedule --csv /dev/stdin --check");
  const Outcome schedule =
      testing::run_shell("'" SLUICE_PROGRAM "' schedule --name 1F1B --pp 2 --microbatches 2 | '" +
                         std::string(SLUICE_PROGRAM) + "' " + csv);
  EXPECT_EQ(schedule.exit_code, 0) << schedule.err;

  ASSERT_EQ(run("pipe", {}, "mkfifo").exit_code, 0);
  const std::string silent =
      "nothing was written to the pipe within 2 s; pipe; name a regular file, or first start the "
      "program that writes to it";
  expect_error("plan pipe", 2, silent);
  expect_error("schedule --csv pipe", 3, silent);
  expect_error("schedule --name 1F1B --pp 2 --microbatches 2 --simulate --costs pipe", 3, silent);
  expect_error("config check run.toml --model.config pipe", 3,
               "not a regular file; pipe; name a file, or a link to one");
}

TEST_F(CommandLineTest, LongValuesAreCutInErrors) {
  test::write_file(folder_ / "long.toml", std::string(500'000, 'k') + " = 1\n");
  const Outcome outcome = run("plan long.toml");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_LT(outcome.err.size(), 500u) << outcome.err;
}

TEST_F(CommandLineTest, SaysWhenAnIntegerHasTooManyDigits) {
  expect_error("config show --training.steps 9223372036854775808", 2,
               "training.steps: 9223372036854775808 is out of range of a 64-bit integer; "
               "--training.steps; write a number 1 to 1000000000000000");
}

TEST_F(CommandLineTest, ConfigReferenceTakesAConfigurationThatExists) {
  write_config();
  EXPECT_EQ(run("config reference run.toml").out, run("config reference").out);
  expect_error("config reference none.toml", 2,
               "cannot open file: No such file or directory; none.toml; check the path");
  EXPECT_NE(unfolded(run("config reference --help").out).find("does not change the output"),
            std::string::npos);
}

TEST_F(CommandLineTest, ConfigCheckWithoutAFileChecksDefaultsEnvironmentAndOverrides) {
  write_config();
  const std::string model = "--model.config '" + std::string(SLUICE_TEST_DATA) +
                            "/reference/models/llama_untied/config.json'";
  const std::string files = " --data.files '[\"corpus/*.txt\"]'";
  const std::string pipeline =
      " --parallelism.pipeline_parallel_degree 2 --training.local_batch_size 2";
  const Outcome outcome = run("config check " + model + files + pipeline);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("no file: ok: llama, ")) << outcome.out;
  expect_error(
      "config check", 2,
      "the configuration names no model; model.path; set model.path, model.config or model.graph");
  expect_error("config check " + model + pipeline, 2,
               "data.files names no file; data.files; for example data.files = "
               "[\"corpus/*.txt\"]");
  EXPECT_EQ(run("config check " + model + files, "SLUICE_TRAINING_STEPS=0").exit_code, 2);
}

TEST_F(CommandLineTest, PlanShowsOneReplicaAndHowManyThereAre) {
  write_config();
  const std::string plan =
      "plan run.toml --training.seq_len 32 --parallelism.pipeline_parallel_degree 2"
      " --parallelism.data_parallel_degree 1000 --training.global_batch_size ";
  const Outcome text = run(plan + "4000");
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("data parallel: 1000 replicas of this pipeline, 2000 ranks in total"),
            std::string::npos)
      << text.out;
  const auto object = nlohmann::json::parse(run(plan + "4000 --json").out);
  EXPECT_EQ(object["data_parallel"]["num_ranks"], 2000);
  EXPECT_EQ(object["schedule"]["num_microbatches"], 4);
  EXPECT_EQ(object["memory"].size(), 2u);
  expect_error(plan + "4100", 2,
               "training.global_batch_size = 4100 is not a multiple of "
               "parallelism.data_parallel_degree x training.microbatch_size = 1000; "
               "--training.global_batch_size; the nearest batch is 4000 or 5000");
  expect_error(plan + "4000 --parallelism.transport nccl", 2,
               "parallelism.transport = \"nccl\" is for GPUs, and this machine has none; "
               "--parallelism.transport; write \"auto\" or \"gloo\"; to plan for other machines "
               "set training.device to \"cuda\"");
}

TEST_F(CommandLineTest, ConfigCheckReadsNoData) {
  write_config();
  test::write_file(folder_ / "corpus/a.txt", "");
  EXPECT_EQ(run("config check run.toml").exit_code, 0);
  EXPECT_NE(run("config check --help").out.find("Reads no weights"), std::string::npos);
}

TEST_F(CommandLineTest, PointsFromAnUnknownOptionToTheKeys) {
  write_config();
  expect_error(
      "plan run.toml --frobnicate", 2,
      "unknown option '--frobnicate'; command 'sluice plan'; one of: --help, --json, "
      "--compare, --draw, --critical-path, --layer-costs, --layout, --emit, --out, --measure, "
      "--device-memory, --flops, --bandwidth, --cluster, "
      "or a key as --section.key VALUE: see 'sluice config reference'");
  EXPECT_NE(run("train --help").out.find("sluice config reference"), std::string::npos);
}

TEST_F(CommandLineTest, HelpOfTheProgramIsInSentences) {
  std::istringstream lines(unfolded(run("--help").out));
  int sentences = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t text = line.size() > 30 ? line.find_first_not_of(' ', 30) : std::string::npos;
    if (!line.starts_with("  ") || text == std::string::npos) continue;
    ++sentences;
    EXPECT_TRUE(line[text] >= 'A' && line[text] <= 'Z') << line;
    EXPECT_EQ(line.back(), '.') << line;
  }
  EXPECT_EQ(sentences, 21);
}

TEST_F(CommandLineTest, ShowsControlCharactersOfValuesWithoutObeyingThem) {
  const Outcome outcome = run("config show --optimizer.name \"$(printf 'a\\033[3m\\302\\233b')\"");
  EXPECT_EQ(outcome.err,
            "sluice: error: 'a?[3m?b' is not a value of optimizer.name; --optimizer.name; "
            "one of: AdamW, SGD\n");
}

TEST_F(CommandLineTest, LinksNoTorch) {
  const Outcome outcome = run("'" SLUICE_PROGRAM "'", {}, "ldd");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("libstdc++"), std::string::npos);
  for (const char* library : {"libtorch", "libc10"}) {
    EXPECT_EQ(outcome.out.find(library), std::string::npos) << outcome.out;
  }
}

}  // namespace
}  // namespace sluice
