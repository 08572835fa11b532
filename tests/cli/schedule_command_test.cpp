#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "support/run_program.h"

namespace sluice {
namespace {

using testing::ProgramResult;
using Words = std::vector<std::string>;

class ScheduleCommandTest : public ::testing::Test {
 protected:
  ProgramResult run(Words words) {
    words.insert(words.begin(), "schedule");
    return testing::run_sluice(words);
  }
  ProgramResult run_on(const std::string& rows, Words words) {
    test::write_file(file(), rows);
    words.insert(words.begin(), {"--csv", file()});
    return run(words);
  }
  std::string file() const { return folder_ / "order.csv"; }

  static nlohmann::json json_of(const ProgramResult& result) {
    EXPECT_EQ(result.err, "");
    return nlohmann::json::parse(result.out);
  }
  void expect_refused(const ProgramResult& result, int code, const std::string& part) {
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(result.err.starts_with("sluice: error: ")) << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_EQ(testing::parts_of(result.err), 3) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }

  test::TempDirectory folder_;
};

TEST_F(ScheduleCommandTest, PrintsTheCsvOfANamedSchedule) {
  const ProgramResult result =
      run({"--name", "train1f1bschedule", "--pp", "2", "--microbatches", "2"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out, "0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n");
}

TEST_F(ScheduleCommandTest, LowersWithWhatItIsAskedFor) {
  const Words base = {"--name", "1f1b", "--pp", "2", "--microbatches", "1", "--lower"};
  EXPECT_EQ(run(base).out, "0F0,0SEND_F0,0RECV_B0,0B0\r\n1RECV_F0,1F0,1B0,1SEND_B0\r\n");
  Words sharded = base;
  sharded.insert(sharded.end(), {"--shard-parameters", "--reduce-gradients"});
  EXPECT_EQ(run(sharded).out,
            "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\r\n"
            "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD\r\n");
}

TEST_F(ScheduleCommandTest, BoundsTheStagesThatAreGathered) {
  EXPECT_EQ(
      run_on("0F0,1F0,1B0,0B0\n", {"--lower", "--shard-parameters", "--max-active-stages", "1"})
          .out,
      "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1B0,1RESHARD,0UNSHARD,0B0,0RESHARD\r\n");
}

TEST_F(ScheduleCommandTest, MergesAndDefersAndKeepsForwards) {
  EXPECT_EQ(run_on("0F0,0I0,0W0\n", {"--lower", "--merge-backward"}).out, "0F0,0B0\r\n");
  EXPECT_EQ(
      run_on("0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F0,1RECV_F1,1F0,1F1\n", {"--lower", "--defer-recv"})
          .out,
      "0F0,0SEND_F0,0F1,0SEND_F1\r\n1RECV_F0,1F0,1RECV_F1,1F1\r\n");
  EXPECT_EQ(run_on("0F0,0B0\n1F0,1B0\n", {"--lower", "--forward-only"}).out,
            "0F0,0SEND_F0\r\n1RECV_F0,1F0\r\n");
}

TEST_F(ScheduleCommandTest, WritesAFileThatReadsBack) {
  const std::string out = folder_ / "out.csv";
  const ProgramResult made =
      run({"--name", "DualPipeV", "--pp", "2", "--microbatches", "6", "--lower", "--out", out});
  EXPECT_EQ(made.exit_code, 0);
  EXPECT_EQ(made.out, "");
  const ProgramResult read = run({"--csv", out, "--stage-to-rank", "v"});
  EXPECT_EQ(read.out, test::read_file(out));
  EXPECT_EQ(run({"--csv", out, "--stage-to-rank", "0,1,1,0", "--check"}).exit_code, 0);
}

TEST_F(ScheduleCommandTest, ProvesANamedSchedule) {
  const auto json =
      json_of(run({"--name", "GPipe", "--pp", "3", "--microbatches", "5", "--check", "--json"}));
  EXPECT_EQ(json, nlohmann::json::parse(R"({"ok": true, "violations": [], "required_capacity": 1,
                                            "max_in_flight": 5})"));
}

TEST_F(ScheduleCommandTest, FailsAProofWithExitCodeThreeAndTheCellsOfTheFile) {
  const ProgramResult result = run_on("0F0,,0B0,,0B0\n,1F0,1B0\n", {"--check", "--json"});
  EXPECT_EQ(result.exit_code, 3);
  const auto json = json_of(result);
  EXPECT_EQ(json.at("ok"), false);
  ASSERT_EQ(json.at("violations").size(), 1U);
  const auto& violation = json.at("violations")[0];
  EXPECT_EQ(violation.at("rank"), 0);
  EXPECT_EQ(violation.at("index"), 4);
  EXPECT_EQ(violation.at("action"), "0B0");
  EXPECT_FALSE(violation.at("reason").get<std::string>().empty());
}

TEST_F(ScheduleCommandTest, ProvesFilesWithTransfersAsTheyAreWritten) {
  const std::string rows = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n";
  EXPECT_EQ(
      run_on(rows + "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n", {"--check"}).exit_code,
      0);
  EXPECT_EQ(
      run_on(rows + "1RECV_F1,1F1,1RECV_F0,1F0,1B0,1SEND_B0,1B1,1SEND_B1\n", {"--check"}).exit_code,
      3);
}

TEST_F(ScheduleCommandTest, ProvesWhatItLowered) {
  for (const char* name : {"1F1B", "Interleaved1F1B", "LoopedBFS", "ZBVZeroBubble", "DualPipeV"}) {
    const ProgramResult result =
        run({"--name", name, "--pp", "4", "--microbatches", "8", "--lower", "--shard-parameters",
             "--reduce-gradients", "--defer-recv", "--check"});
    EXPECT_EQ(result.exit_code, 0) << result.out;
  }
}

TEST_F(ScheduleCommandTest, ShowsAnOrderThatCannotBeLoweredAsItCame) {
  const std::string rows = "0F0,,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n";
  expect_refused(run_on(rows, {"--lower"}), 3, "rank 0 at instruction 1 '0B0'");
  const ProgramResult checked = run_on(rows, {"--lower", "--check", "--json"});
  EXPECT_EQ(checked.exit_code, 3);
  EXPECT_EQ(json_of(checked).at("violations")[0].at("index"), 2);
}

TEST_F(ScheduleCommandTest, AddsTheCheckAndThePredictionToOneObject) {
  const auto json = json_of(run(
      {"--name", "1F1B", "--pp", "2", "--microbatches", "2", "--check", "--simulate", "--json"}));
  EXPECT_EQ(json.at("ok"), true);
  EXPECT_EQ(json.at("makespan"), 9);
  EXPECT_EQ(json.at("busy_per_rank"), nlohmann::json::parse("[6, 6]"));
  EXPECT_EQ(json.at("finish_per_rank"), nlohmann::json::parse("[9, 7]"));
  EXPECT_EQ(json.at("peak_live_per_rank"), nlohmann::json::parse("[2, 1]"));
  EXPECT_EQ(json.at("peak_live_until_grad_input_per_rank"), nlohmann::json::parse("[2, 1]"));
  EXPECT_NEAR(json.at("bubble_fraction"), 6.0 / 18.0, 1e-12);
}

TEST_F(ScheduleCommandTest, SimulatesUnderGivenCosts) {
  const Words base = {"--name", "1F1B", "--pp", "2", "--microbatches", "1", "--simulate", "--json"};
  Words words = base;
  words.insert(words.end(), {"--costs", "F=2,I=1,W=1,B=3,comm=0.5"});
  EXPECT_EQ(json_of(run(words)).at("makespan"), 2 + 0.5 + 2 + 3 + 0.5 + 3);
  test::write_file(folder_ / "costs.json", R"({"stages": [{"F": 1}, {"F": 10}], "comm": 1})");
  words = base;
  words.insert(words.end(), {"--costs", folder_ / "costs.json"});
  EXPECT_EQ(json_of(run(words)).at("makespan"), 1 + 1 + 10 + 2 + 1 + 2);
  words.back() = "F=x";
  expect_refused(run(words), 2, "'F=x' is not a cost");
  test::write_file(folder_ / "costs.json", R"([{"F": 1}])");
  words.back() = folder_ / "costs.json";
  expect_refused(run(words), 3, "'stages' has 1 entry for 2 stages; " + words.back());
  test::write_file(folder_ / "costs.json", R"({"message_bytes": [1, 2]})");
  expect_refused(run(words), 3, "'message_bytes' has 2 entries for 1 cuts between stages");
  test::write_file(folder_ / "costs.json", R"({"rank_speed": [1, 0]})");
  expect_refused(run(words), 3, words.back());
  test::write_file(folder_ / "costs.json", R"({"F": 1e308, "B": 1e308})");
  expect_refused(run(words), 3, words.back());
  words.back() = folder_ / "none.json";
  expect_refused(run(words), 3, "none.json");
}

TEST_F(ScheduleCommandTest, RefusesCostsThatAreNotThere) {
  const Words base = {"--name", "1F1B", "--pp", "2", "--microbatches", "1", "--simulate"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), base.begin(), base.end());
    return run(more);
  };
  expect_refused(with({"--costs", ""}), 2, "no costs are given");
  expect_refused(with({"--costs="}), 2, "no costs are given");
  expect_refused(with({"--costs", "F=1,"}), 2, "a cost is missing between the commas");
  expect_refused(with({"--costs", "F=1,,B=2"}), 2, "a cost is missing between the commas");
  expect_refused(with({"--costs", "G=1"}), 2, "unknown cost 'G'");
}

TEST_F(ScheduleCommandTest, TheRangeOfRanksIsTheLimitOfSchedules) {
  const Words rest = {"--name", "1F1B", "--microbatches", "2"};
  const auto with = [&](const std::string& ranks) {
    Words words = {"--pp", ranks};
    words.insert(words.end(), rest.begin(), rest.end());
    return run(words);
  };
  const std::string range = "; command 'sluice schedule'; give a whole number from 1 to 65536";
  for (const char* ranks : {"x", "0", "65537", "1000000"})
    expect_refused(with(ranks), 2, "'" + std::string(ranks) + "' is not a value of --pp" + range);
  EXPECT_EQ(with("65536").exit_code, 0);
  const testing::ProgramResult split =
      testing::run_sluice({"split", "--layers", "4", "--pp", "65537"});
  EXPECT_EQ(split.exit_code, 2);
  EXPECT_NE(split.err.find("give a whole number from 1 to 65536"), std::string::npos) << split.err;
}

TEST_F(ScheduleCommandTest, NamesTheCommandWhereARuleOfSchedulesRefuses) {
  expect_refused(
      run({"--name", "1F1B", "--pp", "2", "--microbatches", "0"}), 2,
      "'0' is not a value of --microbatches; command 'sluice schedule'; give a whole number "
      "from 1 to 1048576");
  expect_refused(run({"--name", "1F1B", "--pp", "4", "--stages", "8", "--microbatches", "8"}), 2,
                 "got 2; command 'sluice schedule'; give 1 stage per rank");
  expect_refused(run({"--name", "DualPipeV", "--pp", "2", "--microbatches", "1"}), 2,
                 "command 'sluice schedule'");
  expect_refused(run_on("0F0,0B0\n", {"--stage-to-rank", "x"}), 2, "command 'sluice schedule'");
  expect_refused(run_on("0F0,0B0\n", {"--stage-to-rank="}), 2, "command 'sluice schedule'");
  expect_refused(run_on("0F0,0B0\n", {"--pp", "0"}), 2, "'0' is not a value of --pp");
  expect_refused(run_on("0F0,0B0\n", {"--out", ""}), 2, "--out is empty");
}

TEST_F(ScheduleCommandTest, CountsOfTheCommandLineSayWhatAFileMustHold) {
  const std::string rows = "0F0,0B0\n1F0,1B0\n";
  EXPECT_EQ(
      run_on(rows, {"--pp", "2", "--stages", "2", "--microbatches", "1", "--check"}).exit_code, 0);
  expect_refused(run_on(rows, {"--pp", "3"}), 3, "the file has 2 rows, not 3");
  expect_refused(run_on(rows, {"--stages", "4"}), 3, "the file has 2 stages, not 4");
  EXPECT_EQ(run_on(rows, {"--microbatches", "2", "--check"}).exit_code, 3);
}

TEST_F(ScheduleCommandTest, RefusesARankOfTheMapWithoutARow) {
  const ProgramResult result = run_on("0F0,0B0\n", {"--stage-to-rank", "0,1", "--check", "--json"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(json_of(result).at("violations")[0].at("rank"), 1);
}

TEST_F(ScheduleCommandTest, RefusesMalformedFilesAndUnknownNames) {
  expect_refused(run_on("0F0,1F0junk\n", {}), 3, "order.csv:1:2");
  expect_refused(run({"--csv", folder_ / "none.csv"}), 3, "none.csv");
  expect_refused(run({"--name", "1F1C", "--pp", "2", "--microbatches", "2"}), 2,
                 "did you mean '1F1B'?");
  expect_refused(
      run({"--name", "zbv", "--pp", "2", "--stages-per-rank", "3", "--microbatches", "2"}), 2,
      "2 stages per rank");
  expect_refused(run({"--name", "LoopedBFS", "--pp", "2", "--stages", "5", "--microbatches", "2"}),
                 2, "5 stages cannot be divided evenly over 2 ranks");
}

TEST_F(ScheduleCommandTest, ReplacesAFileAtOnce) {
  const std::string out = folder_ / "out.csv", link = folder_ / "link.csv";
  const Words words = {"--name", "1F1B", "--pp", "2", "--microbatches", "2", "--out"};
  const auto write = [&](const std::string& path) {
    Words all = words;
    all.push_back(path);
    return run(all);
  };
  const std::string rows = "0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n";
  test::write_file(out, "before");
  std::filesystem::permissions(out, std::filesystem::perms(0640));
  std::filesystem::create_hard_link(out, folder_ / "old.csv");
  std::filesystem::create_symlink("out.csv", link);
  EXPECT_EQ(write(link).exit_code, 0);
  EXPECT_EQ(test::read_file(out), rows);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(test::read_file(folder_ / "old.csv"), "before") << "written in place";
  EXPECT_EQ(std::filesystem::status(out).permissions(), std::filesystem::perms(0640));

  // Such paths are written in place, not replaced.
  EXPECT_EQ(write("/dev/stdout").out, rows);
  const std::string appended = folder_ / "appended";
  test::write_file(appended, "kept ");
  const ProgramResult shell =
      testing::run_shell(testing::quoted_for_shell(SLUICE_PROGRAM) +
                         " schedule --name 1F1B --pp 2 --microbatches 2 --out /dev/stdout >>" +
                         testing::quoted_for_shell(appended));
  EXPECT_EQ(shell.exit_code, 0) << shell.err;
  EXPECT_EQ(test::read_file(appended), "kept " + rows);
  EXPECT_EQ(write("/dev/null").exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  expect_refused(write("/dev/full"), 2,
                 "cannot write the file: No space left on device; /dev/full; free some space");
  expect_refused(write(folder_.str()), 2, "cannot write the file: Is a directory");
}

TEST_F(ScheduleCommandTest, AFileThatCannotBeWrittenStaysAsItWas) {
  const std::string out = folder_ / "out.csv";
  test::write_file(out, "before");
  const ProgramResult result = testing::run_shell(
      "ulimit -f 1; " + testing::quoted_for_shell(SLUICE_PROGRAM) +
      " schedule --name 1F1B --pp 40 --microbatches 80 --out " + testing::quoted_for_shell(out));
  expect_refused(result, 2, "cannot write the file: File too large; " + out);
  EXPECT_EQ(test::read_file(out), "before");
  const auto files = std::filesystem::directory_iterator(folder_.str());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "a temporary file is left";
}

TEST_F(ScheduleCommandTest, RefusesOptionsThatMeanNothing) {
  const Words base = {"--name", "1F1B", "--pp", "2", "--microbatches", "2"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), base.begin(), base.end());
    return run(more);
  };
  expect_refused(run({}), 2, "neither --name nor --csv is given");
  expect_refused(with({"--csv", "f.csv"}), 2, "--name and --csv exclude each other");
  expect_refused(run({"--name", "1F1B", "--pp", "2"}), 2, "--name needs --microbatches");
  expect_refused(with({"--stage-to-rank", "loop"}), 2, "--stage-to-rank needs --csv");
  expect_refused(with({"--shard-parameters"}), 2, "--shard-parameters needs --lower");
  expect_refused(with({"--lower", "--max-active-stages", "2"}), 2, "needs --shard-parameters");
  expect_refused(with({"--costs", "F=1"}), 2, "--costs needs --simulate");
  expect_refused(with({"--lower", "--shard-parameters", "--max-active-stages", "0"}), 2,
                 "'0' is not a value of --max-active-stages");
  expect_refused(with({"--draw", "x.png"}), 2, "'x.png' is not a kind of picture");
  expect_refused(with({"--critical-path"}), 2, "--critical-path needs --draw");
  expect_refused(with({"--draw", folder_ / "x.svg", "--out", folder_ / "x.svg"}), 2,
                 "--out and --draw name the same file");
  test::write_file(folder_ / "costs.json", R"({"F": 1})");
  for (const char* option : {"--draw", "--out"}) {
    expect_refused(
        with({"--simulate", "--costs", folder_ / "costs.json", option, folder_ / "costs.json"}), 2,
        "the file of --costs would be replaced");
  }
  EXPECT_EQ(test::read_file(folder_ / "costs.json"), R"({"F": 1})");
  expect_refused(with({"--draw", folder_ / "no/x.svg"}), 2, "cannot write the file");
  expect_refused(with({"--chek"}), 2, "did you mean '--check'?");
  expect_refused(with({"--out", folder_ / "no/such/folder.csv"}), 2,
                 "cannot write the file: No such file or directory");
  expect_refused(with({"--stages", "2", "--stages-per-rank", "1"}), 2,
                 "--stages and --stages-per-rank exclude each other");
  expect_refused(run({"--name", "1F1B", "--pp", "x", "--microbatches", "2"}), 2,
                 "'x' is not a value of --pp");
}

TEST_F(ScheduleCommandTest, ShowsRowsAsJson) {
  const auto json = json_of(run_on("0F0,,0B0\n,1F0,1B0\n", {"--json"}));
  EXPECT_EQ(json.at("num_stages"), 2);
  EXPECT_EQ(json.at("stage_to_rank"), nlohmann::json::parse("[0, 1]"));
  EXPECT_EQ(json.at("rows"), nlohmann::json::parse(R"([["0F0", "", "0B0"], ["", "1F0", "1B0"]])"));
}

TEST_F(ScheduleCommandTest, ExplainsViolationsInWords) {
  const ProgramResult result = run_on("0F0,0B0\n1B0,1F0\n", {"--check"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.out.find("rank 1, cell 0 '1B0': needs '1F0' above it\n"), std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("1 violation\n"), std::string::npos);
}

class ScheduleSearchTest : public ScheduleCommandTest {
 protected:
  // A microbatch keeps 4 bytes; 100 bytes are always held.
  ProgramResult search(Words more = {}) {
    test::write_file(costs(), R"({"stages": [{"F": 1, "I": 1, "W": 1}, {"F": 2, "I": 2, "W": 1}],
                                  "kept_bytes": 4, "kept_after_input_bytes": 2, "held_bytes": 100,
                                  "running_bytes": 3, "latency": 0.1})");
    Words words = {"--search", "--pp", "2", "--microbatches", "4", "--costs", costs()};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  std::string costs() const { return folder_ / "costs.json"; }
};

TEST_F(ScheduleSearchTest, ShowsWhatItFoundBesideTheNamedSchedules) {
  const ProgramResult result = search();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(result.out.starts_with("found: ") || result.out.starts_with("none is better than "))
      << result.out;
  for (const char* part : {"schedule", "makespan", "bubble", "peak", "GPipe", "1F1B",
                           "InterleavedZeroBubble", "searched", "ok: completes", "placement: loop",
                           "--parallelism.pipeline_parallel_schedule 1F1B"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  EXPECT_EQ(result.out.find("-0.0%"), std::string::npos) << result.out;
}

TEST_F(ScheduleSearchTest, PrintsSearchResultAsJson) {
  const auto json = json_of(search({"--json", "--max-memory", "120"}));
  EXPECT_EQ(json.at("max_memory"), 120);
  ASSERT_TRUE(json.at("best_named").is_string());
  double best = 1e9;
  for (const auto& named : json.at("named")) {
    if (named.at("ok") == true) best = std::min(best, named.at("makespan").get<double>());
  }
  const auto& found = json.at("found");
  EXPECT_EQ(json.at("better"), found.at("makespan").get<double>() < best * (1 - 1e-9));
  EXPECT_LE(found.at("makespan"), best);
  EXPECT_EQ(found.at("check").at("ok"), true);
  for (const auto& peak : found.at("peak_bytes_per_rank")) EXPECT_LE(peak, 120);
  EXPECT_EQ(found.at("rows").size(), 2u);
}

TEST_F(ScheduleSearchTest, WritesAnOrderThatAScheduleFileMayHave) {
  const std::string out = folder_ / "found.csv";
  ASSERT_EQ(search({"--out", out}).exit_code, 0);
  EXPECT_EQ(run({"--csv", out, "--check"}).exit_code, 0);
}

TEST_F(ScheduleSearchTest, ExitsWithSevenIfNoScheduleFitsInMemory) {
  const ProgramResult result = search({"--max-memory", "106"});
  EXPECT_EQ(result.exit_code, 7) << result.err;
  EXPECT_TRUE(result.err.starts_with(
      "sluice: error: no order fits into 106B on a rank: of the named schedules, "))
      << result.err;
  EXPECT_NE(result.err.find("; --max-memory; "), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("needs "), std::string::npos) << result.out;
  const ProgramResult json = search({"--max-memory", "106", "--json"});
  EXPECT_EQ(json.exit_code, 7);
  EXPECT_TRUE(nlohmann::json::parse(json.out).at("found").is_null());
  // The minimum for one microbatch at a time: 100 held, 4 kept, 3 running.
  EXPECT_EQ(search({"--max-memory", "107"}).exit_code, 0);
  EXPECT_EQ(search({"--max-memory", "0.107kB"}).exit_code, 0);
}

TEST_F(ScheduleSearchTest, RefusesWhatItCannotUse) {
  expect_refused(run({"--search", "--pp", "2", "--microbatches", "4"}), 2,
                 "--search needs --costs");
  expect_refused(search({"--name", "1F1B"}), 2, "--search and --name exclude each other");
  for (const char* text : {"1 apple", "0", "-5", ""})
    expect_refused(search({"--max-memory", text}), 2,
                   "--max-memory: '" + std::string(text) + "' is not an amount of memory");
  expect_refused(search({"--stages", "3"}), 2, "3 stages cannot be divided evenly over 2 ranks");
  expect_refused(run({"--search", "--pp", "2", "--microbatches", "4", "--costs", "F=1",
                      "--max-memory", "100"}),
                 2, "--max-memory needs the bytes that a stage keeps for a microbatch");
}

TEST_F(ScheduleCommandTest, ALinkThatLeadsOutOfItsFolderIsNotWrittenThrough) {
  const std::string precious = folder_ / "elsewhere/precious";
  test::write_file(precious, "precious");
  std::filesystem::create_directory(folder_ / "here");
  const Words words = {"--name", "1F1B", "--pp", "2", "--microbatches", "2"};
  for (const char* target : {"../elsewhere/precious", "inner", "../elsewhere/new"}) {
    for (const char* option : {"--out", "--draw"}) {
      const std::string link = folder_ / "here/link.svg";
      std::filesystem::remove(link);
      std::filesystem::remove(folder_ / "here/inner");
      std::filesystem::create_symlink(target, link);
      std::filesystem::create_symlink(precious, folder_ / "here/inner");
      Words all = words;
      all.insert(all.end(), {option, link});
      expect_refused(run(all), 2, "the file is a symbolic link to '");
      EXPECT_TRUE(std::filesystem::is_symlink(link));
    }
  }
  EXPECT_EQ(test::read_file(precious), "precious");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "elsewhere/new"));
}

TEST_F(ScheduleCommandTest, ThePictureOfTheSmallestCostsIsDrawn) {
  for (const char* cost : {"1e-323", "5e-324", "1e-300", "1e300"}) {
    const std::string picture = folder_ / "x.svg";
    const ProgramResult result =
        run({"--name", "GPipe", "--pp", "2", "--microbatches", "2", "--simulate", "--costs",
             std::string("F=") + cost + ",I=0,W=0,B=" + cost, "--draw", picture});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(test::read_file(picture).ends_with("</svg>\n")) << cost;
  }
}

TEST_F(ScheduleCommandTest, ProvesAFileWithTransfersForTorch) {
  const std::string torch = std::string(SLUICE_TEST_DATA) + "/reference/deferred/";
  const std::string wrong = torch + "ZBVZeroBubble_deferred.csv";
  const ProgramResult refused = run({"--csv", wrong, "--stage-to-rank", "v", "--check", "--json"});
  EXPECT_EQ(refused.exit_code, 3);
  const auto object = nlohmann::json::parse(refused.out);
  EXPECT_EQ(object.at("ok"), false);
  EXPECT_EQ(object.at("verdicts").at("gloo").at("ok"), false);
  EXPECT_EQ(object.at("verdicts").at("nccl").at("ok"), false);
  EXPECT_EQ(run({"--csv", wrong, "--stage-to-rank", "v", "--check", "--for", "sluice"}).exit_code,
            0);
  EXPECT_EQ(
      run({"--csv", wrong, "--stage-to-rank", "v", "--check", "--for", "rendezvous"}).exit_code, 3);
  EXPECT_EQ(
      run({"--csv", torch + "ZBVZeroBubble_plain.csv", "--stage-to-rank", "v", "--check"}).out,
      "ok for torch over Gloo and NCCL: completes with channels of capacity 1; at most 2 "
      "messages in one channel\n");
  expect_refused(run({"--csv", wrong, "--check", "--for", "troch"}), 2, "did you mean 'torch'?");
  expect_refused(run({"--csv", wrong, "--for", "torch"}), 2, "--for needs --check");
}

TEST_F(ScheduleCommandTest, ASchedulesProofIsThatOfSluiceWithoutFor) {
  const auto object = nlohmann::json::parse(
      run({"--name", "1F1B", "--pp", "2", "--microbatches", "4", "--check", "--json"}).out);
  EXPECT_EQ(object.at("ok"), true);
  EXPECT_FALSE(object.contains("verdicts"));
}

TEST_F(ScheduleCommandTest, WritesLanesAndCurvesOnlyWithTimeline) {
  const Words base = {"--name", "1F1B", "--pp", "2", "--microbatches", "4", "--simulate", "--json"};
  const auto without = nlohmann::json::parse(run(base).out);
  Words with = base;
  with.push_back("--timeline");
  const auto whole = nlohmann::json::parse(run(with).out);
  for (const char* key : {"rows", "timeline", "live"}) {
    EXPECT_FALSE(without.contains(key)) << key;
    EXPECT_TRUE(whole.contains(key)) << key;
  }
  EXPECT_EQ(without.size() + 3, whole.size());
  expect_refused(run({"--name", "1F1B", "--pp", "2", "--microbatches", "4", "--timeline"}), 2,
                 "--timeline needs --simulate");
}

TEST_F(ScheduleCommandTest, SaysWhatSchedulesOfTheFieldAreThatItDoesNotMake) {
  const auto named = [&](const char* name) {
    return run({"--name", name, "--pp", "2", "--microbatches", "4"});
  };
  expect_refused(named("DualPipe"), 2,
                 "DualPipe is a schedule that sluice does not make: it keeps "
                 "two copies of the weights");
  expect_refused(named("ScheduleDualPipe"), 2, "use 'DualPipeV'");
  expect_refused(named("v-half"), 2, "V-Half is a schedule that sluice does not make");
  expect_refused(named("Hanayo"), 2, "use 'ZBVZeroBubble'");
  expect_refused(named("ZB-H2"), 2, "ZB-H2 is a schedule that sluice does not make");
}

TEST_F(ScheduleCommandTest, RefusesASizeThatNobodyHas) {
  expect_refused(run({"--name", "1F1B", "--pp", "1000000", "--microbatches", "2", "--check"}), 2,
                 "65536");
}

}  // namespace
}  // namespace sluice
