#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

#include "support/run_program.h"

namespace sluice {
namespace {

using testing::ProgramResult;
using testing::run_shell;
using testing::run_sluice;
using Words = std::vector<std::string>;

std::set<std::string> words_in(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

class CompletionCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ProgramResult made = run_sluice({"completion", "bash"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    test::write_file(script(), made.out);
  }
  std::string script() const { return folder_ / "sluice.bash"; }

  std::set<std::string> offered(const Words& line) const {
    std::string words;
    for (const std::string& word : line) words += " " + testing::quoted_for_shell(word);
    const std::string in_bash = "source " + script() + "; COMP_WORDS=(sluice" + words +
                                "); COMP_CWORD=" + std::to_string(line.size()) +
                                "; _sluice; printf '%s\\n' \"${COMPREPLY[@]}\"";
    const ProgramResult result = run_shell("bash --norc -c " + testing::quoted_for_shell(in_bash));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return words_in(result.out);
  }

  test::TempDirectory folder_;
};

TEST_F(CompletionCommandTest, OffersEveryCommandAndEveryOptionThatItsHelpNames) {
  const std::string help = run_sluice({"--help"}).out;
  const std::set<std::string> commands = offered({""});
  EXPECT_GE(commands.size(), 13u);
  const std::regex option("--[a-z][a-z-]*\\.?");
  for (const std::string& command : commands) {
    if (command.starts_with("-")) continue;
    EXPECT_NE(help.find("\n  " + command), std::string::npos) << command;
    if (command == "help") continue;
    std::string text = run_sluice({command, "--help"}).out;
    text = text.substr(0, text.find("Not built yet"));
    if (const std::size_t at = text.find("Options"); at != std::string::npos) text.erase(0, at);
    const std::set<std::string> options = offered({command, "--"});
    for (std::sregex_iterator at(text.begin(), text.end(), option), end; at != end; ++at) {
      if (at->str().ends_with(".")) continue;
      EXPECT_TRUE(options.contains(at->str())) << command << " " << at->str();
    }
  }
}

TEST_F(CompletionCommandTest, OffersKeysWhereTheyAreTakenAndWhatIsBelowACommand) {
  const std::set<std::string> key = {"--training.steps"};
  for (const Words& line : std::vector<Words>{{"plan", "run.toml", "--training.step"},
                                              {"train", "run.toml", "--training.step"},
                                              {"eval", "run.toml", "--training.step"},
                                              {"config", "show", "--training.step"}})
    EXPECT_EQ(offered(line), key) << line.front();
  EXPECT_EQ(offered({"schedule", "--training.step"}), std::set<std::string>());
  EXPECT_EQ(offered({"sched"}), std::set<std::string>{"schedule"});
  EXPECT_EQ(offered({"data", "tok"}), std::set<std::string>{"tokenize"});
  EXPECT_EQ(offered({"checkpoint", "ver"}), std::set<std::string>{"verify"});
  EXPECT_EQ(offered({"checkpoint", "export", "a", "--me"}), std::set<std::string>{"--merge"});
  EXPECT_EQ(offered({"plan", "run.toml", "--dra"}), std::set<std::string>{"--draw"});
  EXPECT_EQ(offered({"compl"}), std::set<std::string>{"completion"});
  EXPECT_EQ(offered({"completion", ""}), (std::set<std::string>{"--help", "bash", "fish", "zsh"}));
  EXPECT_EQ(offered({"help", "sched"}), std::set<std::string>{"schedule"});
  // The words after "--" are completed as a separate command line.
  EXPECT_EQ(offered({"launch", "-n", "2", "--", "tra"}), std::set<std::string>{"train"});
  EXPECT_EQ(offered({"launch", "-n", "2", "--", "train", "run.toml", "--training.step"}), key);
}

TEST_F(CompletionCommandTest, OffersTheValuesOfOptionsAndKeys) {
  using Set = std::set<std::string>;
  EXPECT_EQ(offered({"schedule", "--name", "Z"}), Set{"ZBVZeroBubble"});
  EXPECT_EQ(offered({"schedule", "--name", "zb"}), Set());
  EXPECT_EQ(offered({"split", "--convention", "torch"}),
            (Set{"torchtitan", "torchtitan-2024", "torchtitan-current"}));
  EXPECT_EQ(offered({"train", "run.toml", "--optimizer.name", ""}), (Set{"AdamW", "SGD"}));
  EXPECT_EQ(offered({"train", "run.toml", "--optimizer.name", "=", "A"}), Set{"AdamW"});
  EXPECT_EQ(offered({"plan", "run.toml", "--parallelism.pipeline_parallel_schedule", "Z"}),
            Set{"ZBVZeroBubble"});
  EXPECT_EQ(offered({"plan", "run.toml", "--parallelism.pipeline_parallel_schedule", "a"}),
            Set{"auto"});
  EXPECT_EQ(offered({"train", "run.toml", "--data.shuffle", ""}), (Set{"false", "true"}));
  EXPECT_EQ(offered({"train", "run.toml", "--checkpoint.resume", ""}), (Set{"auto", "none"}));
}

TEST_F(CompletionCommandTest, HasAScriptForEachShellAndRefusesOthers) {
  for (const char* shell : {"zsh", "fish"}) {
    const ProgramResult made = run_sluice({"completion", shell});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    test::write_file(folder_ / shell, made.out);
    const std::string checked = shell + std::string(" -n ") + folder_ / shell;
    if (run_shell("command -v " + std::string(shell)).exit_code == 0) {
      EXPECT_EQ(run_shell(checked).exit_code, 0) << run_shell(checked).err;
    }
    EXPECT_NE(made.out.find("--microbatches"), std::string::npos);
  }
  const ProgramResult refused = run_sluice({"completion", "fishh"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.err,
            "sluice: error: there is no completion for the shell 'fishh'; command 'sluice "
            "completion'; did you mean 'fish'?\n");
}

}  // namespace
}  // namespace sluice
