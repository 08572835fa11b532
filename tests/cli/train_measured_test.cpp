#include <algorithm>
#include <cmath>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

class MeasuredCommandTest : public TrainCommandTest {
 protected:
  std::string costs() const { return folder_ / "costs.json"; }

  ProgramResult plan(std::vector<std::string> words) const {
    words.insert(words.begin(), {"plan", config()});
    return run_sluice(words);
  }
  ProgramResult measure(std::vector<std::string> words = {}) const {
    words.insert(words.end(), {"--measure", costs()});
    return plan(words);
  }

  ProgramResult train_in(int processes, const std::vector<std::string>& options) const {
    fs::remove_all(out());
    if (processes == 1) return train(options);
    std::string line = quoted_for_shell(SLUICE_PROGRAM) + " launch -n " +
                       std::to_string(processes) + " -- train " + quoted_for_shell(config());
    for (const std::string& option : options) line += " " + quoted_for_shell(option);
    return run_shell(line);
  }

  // Trains with the option in one process and in two. If several processes planned differently they
  // would reject each other's plan, so one of them plans for all.
  void expect_bits_of_1f1b(const std::string& option) const {
    ASSERT_EQ(train_in(1, {}).exit_code, 0);
    const std::string expected = numbers();
    const bool is_auto = option.ends_with("=auto");
    for (const int processes : {1, 2}) {
      SCOPED_TRACE(processes);
      const ProgramResult result = train_in(processes, {option});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(result.err, "");
      EXPECT_EQ(numbers(), expected);
      expect_says(result.out, "as even as layers allow by their measured");
      expect_says(result.out, "\nstep time: ");
      expect_says(result.out, " ms predicted, ");
      expect_says(result.out, " ms measured (median of 2 steps), measured / predicted ");
      EXPECT_EQ(result.out.find("\nauto: ") != std::string::npos, is_auto) << result.out;
      EXPECT_EQ(result.out.find(" was chosen for it") != std::string::npos, is_auto) << result.out;
    }
  }

  static void expect_says(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  static void expect_one_error(const ProgramResult& result, int exit_code,
                               const std::string& says) {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_TRUE(result.err.starts_with("sluice: error: ")) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    expect_says(result.err, says);
  }
};

TEST_F(MeasuredCommandTest, PlanMeasureWritesAFileThatPlansAndSearchesTake) {
  const ProgramResult measured = measure({"--parallelism.partition=measured"});
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_EQ(measured.err, "");
  expect_says(measured.out, " ms a step");
  expect_says(measured.out, "as even as layers allow by their measured");
  EXPECT_EQ(measured.out.find("counted costs stand for the times"), std::string::npos)
      << measured.out;
  const nlohmann::json file = nlohmann::json::parse(test::read_file(costs()));
  EXPECT_EQ(file.at("layers").size(), 7u);

  const ProgramResult again =
      plan({"--parallelism.partition=measured", "--parallelism.costs=" + costs()});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out, measured.out);
  const ProgramResult searched = run_sluice(
      {"schedule", "--search", "--costs", costs(), "--pp", "2", "--microbatches", "2", "--json"});
  EXPECT_EQ(searched.exit_code, 0) << searched.err;
  EXPECT_GT(nlohmann::json::parse(searched.out).at("found").at("makespan"), 0);
  EXPECT_EQ(measure({"--json"}).exit_code, 0);
}

TEST_F(MeasuredCommandTest, PlanMeasureReplacesNothingButCosts) {
  for (const std::string& path : {config(), std::string(folder_ / "text.txt")}) {
    const std::string before = test::read_file(path);
    expect_one_error(plan({"--measure", path}), 2, path);
    EXPECT_EQ(test::read_file(path), before);
  }
  expect_one_error(plan({"--measure", folder_ / "no/such/costs.json"}), 2, "make its folder first");
  test::write_file(costs(), R"({"stages": [{"F": 1}]})");
  expect_one_error(measure(), 2, "holds no measured costs");
}

TEST_F(MeasuredCommandTest, PlanMeasureOfAWrongConfigurationWritesNothing) {
  expect_one_error(measure({"--parallelism.pipeline_parallel_degree=9"}), 2, "9");
  expect_one_error(measure({"--training.activation_checkpoint=[\"nope\"]"}), 2, "nope");
  expect_one_error(measure({"--model.path=" + std::string(folder_ / "none")}), 3, "none");
  EXPECT_FALSE(fs::exists(costs()));
}

TEST_F(MeasuredCommandTest, CostsThatAreNotOfTheModelAreRefusedWithTheLayer) {
  ASSERT_EQ(measure().exit_code, 0);
  const auto file = nlohmann::ordered_json::parse(test::read_file(costs()));
  const auto refused = [&](const nlohmann::ordered_json& layers, const std::string& says) {
    nlohmann::ordered_json changed = file;
    changed["layers"] = layers;
    test::write_file(costs(), changed.dump());
    for (const char* partition : {"measured", "even"}) {
      const ProgramResult result = plan(
          {"--parallelism.costs=" + costs(), "--parallelism.partition=" + std::string(partition)});
      expect_one_error(result, 3, says);
      expect_says(result.err, costs());
    }
  };
  auto layers = file["layers"];
  layers.erase(2);
  refused(layers, "layers[2] is 'model.layers.2', where the model has 'model.layers.1'");
  layers = file["layers"];
  layers.erase(6);
  refused(layers, "layers[6] is missing, where the model has 'lm_head'");
  layers = file["layers"];
  layers[2]["name"] = "zz";
  refused(layers, "layers[2] is 'zz', where the model has 'model.layers.1'");
  layers = file["layers"];
  layers.insert(layers.begin() + 3, layers[2]);
  refused(layers, "'layers[3].name' is 'model.layers.1', which is also the name of layers[2]");
  layers = file["layers"];
  layers.push_back(layers[6]);
  layers[7]["name"] = "more";
  refused(layers, "layers[7] is 'more', where the model has no more layers");
}

TEST_F(MeasuredCommandTest, AMeasuredSplitHasTheBitsOfTheEvenOne) {
  expect_bits_of_1f1b("--parallelism.partition=measured");
}

TEST_F(MeasuredCommandTest, AMeasuredScheduleHasTheBitsOf1F1B) {
  expect_bits_of_1f1b("--parallelism.pipeline_parallel_schedule=auto");
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The run must warn if the median time of a window of steps is far from the expected time. The test
// reads the step times from the metrics, so it does not depend on the machine's speed.
TEST_F(MeasuredCommandTest, WarnsOnceIfStepTimesDifferFromPrediction) {
  ASSERT_EQ(measure().exit_code, 0);
  const auto file = nlohmann::ordered_json::parse(test::read_file(costs()));
  const std::vector<std::string> options = {"--parallelism.costs=" + costs(),
                                            "--training.steps=110", "--training.threads_per_rank=1",
                                            "--metrics.log_freq=1"};
  struct Pace {
    double ratio;     // measured / expected
    double farthest;  // largest distance of a window's ratio from 1
  };
  const auto train_expecting = [&](double factor) {
    nlohmann::ordered_json scaled = file;
    for (const char* key : {"latency", "ACTION", "REDUCE_LOSS", "REDUCE_NORM"})
      scaled[key] = factor * file[key].get<double>();
    scaled["bandwidth"] = file["bandwidth"].get<double>() / factor;
    for (auto& layer : scaled["layers"]) {
      for (const char* key : {"F", "I", "W", "B", "OPTIMIZER_STEP", "CAST"})
        layer[key] = factor * layer[key].get<double>();
    }
    test::write_file(costs(), scaled.dump());
    const ProgramResult result = train_in(1, options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<std::string> planned = options;
    planned.emplace_back("--json");
    const double expected = nlohmann::json::parse(plan(planned).out)["prediction"]["step"];
    std::vector<double> seconds;
    for (const nlohmann::json& line : metrics()) seconds.push_back(line.at("step_seconds"));
    EXPECT_EQ(seconds.size(), 110u);
    Pace pace{median_of(seconds) / expected, 0};
    for (const std::ptrdiff_t begin : {5, 55}) {
      const double median = median_of({seconds.begin() + begin, seconds.begin() + begin + 50});
      pace.farthest = std::max(pace.farthest, std::abs(median / expected - 1));
    }
    const std::string says = " times as long as expected: ";
    const std::size_t first = result.err.find(says);
    EXPECT_EQ(first != std::string::npos, pace.farthest > 0.15) << pace.farthest << result.err;
    EXPECT_EQ(first, result.err.rfind(says)) << result.err;
    return pace;
  };
  EXPECT_GT(train_expecting(1000).farthest, 0.15);
  double factor = 1;
  for (int i = 0; i < 8; ++i) {
    const Pace pace = train_expecting(factor);
    if (pace.farthest <= 0.15) return;
    factor *= pace.ratio;
  }
  GTEST_SKIP() << "this machine is too busy for steps that take alike times";
}

TEST_F(MeasuredCommandTest, RejectsWrongOptionsBeforeRendezvous) {
  const std::string alone =
      "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 " +  // no process listens there
      quoted_for_shell(SLUICE_PROGRAM) + " train " + quoted_for_shell(config());
  for (const char* wrong :
       {"--training.activation_checkpoint='[\"nope\"]'", "--training.trainable='[\"nope\"]'",
        "--model.path=" SLUICE_TEST_DATA "/nope"}) {
    for (const char* options : {" --parallelism.partition=measured ",
                                " --parallelism.pipeline_parallel_schedule=auto "}) {
      const auto begin = std::chrono::steady_clock::now();
      const ProgramResult result = run_shell(alone + options + wrong);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      EXPECT_NE(result.exit_code, 0);
      expect_says(result.err, "nope");
      EXPECT_LT(took.count(), 60) << wrong << options;  // the rendezvous would wait for 300 s
    }
  }
}

}  // namespace
}  // namespace sluice::testing
