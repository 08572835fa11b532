#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

TEST_F(TrainCommandTest, WritesMetricsAndAHuggingFaceDirectory) {
  const ProgramResult result = train();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* part :
       {"training.steps", "run.toml", "split:", "schedule: 1F1B", "data:", "unigram entropy",
        "step: 1/3  loss: ", "  ms: ", "weights: ", "peak memory"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
  EXPECT_EQ(result.out.find('\033'), std::string::npos) << "colour without a terminal";

  const std::vector<nlohmann::json> lines = metrics();
  ASSERT_EQ(lines.size(), 3u);
  std::set<std::string> keys;
  for (const auto& [key, value] : lines[0].items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"step", "loss", "grad_norm", "lr", "tokens",
                                         "step_seconds", "tokens_per_second", "bubble_fraction",
                                         "memory_bytes", "rank_seconds"}));
  EXPECT_EQ(lines[2]["step"], 3);
  EXPECT_EQ(lines[2]["tokens"], 4 * 15);
  ASSERT_EQ(lines[2]["memory_bytes"].size(), 2u);
  for (const auto& bytes : lines[2]["memory_bytes"]) EXPECT_GT(bytes, 180'800 * 4);
  EXPECT_LT(lines[2]["loss"], lines[0]["loss"]);

  const std::set<std::string> files = test::list_directory(out() + "/checkpoint/step-00000003");
  EXPECT_TRUE(files.count("config.json"));
  EXPECT_TRUE(files.count("model.safetensors.index.json") || files.count("model.safetensors"));
  EXPECT_EQ(test::list_directory(out() + "/checkpoint").size(), 1u);
}

TEST_F(TrainCommandTest, InitNamesTheCommandsThatComeNext) {
  const std::string here = folder_ / "begin";
  const ProgramResult result = run_sluice({"init", here});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, here + "/quickstart.toml: a Llama of 3 million parameters on 4 pipeline " +
                            "stages\n\n  sluice plan " + here +
                            "/quickstart.toml\n  sluice train " + here +
                            "/quickstart.toml\n\nand after the training\n\n  sluice sample " +
                            here + "/outputs/checkpoint --prompt \"#include\"\n  sluice report " +
                            here + "/outputs\n");
  EXPECT_NE(test::read_file(here + "/quickstart.toml")
                .find("# headers of the LibTorch that was found; its path changes if you move it"),
            std::string::npos);
}

TEST_F(TrainCommandTest, TheTimeOfAStepIsSplitIntoSharesThatAddUpToIt) {
  ASSERT_EQ(train().exit_code, 0);
  for (const nlohmann::json& line : metrics()) {
    ASSERT_EQ(line.at("rank_seconds").size(), 2u);
    for (const nlohmann::json& shares : line.at("rank_seconds")) {
      double sum = 0;
      for (const auto& [share, seconds] : shares.items()) {
        EXPECT_GE(seconds.get<double>(), -1e-9) << share;
        sum += seconds.get<double>();
      }
      EXPECT_NEAR(sum, line.at("step_seconds").get<double>(), 1e-9);
    }
    EXPECT_GT(line.at("rank_seconds").at(1).at("compute"), 0);
    EXPECT_GT(line.at("rank_seconds").at(1).at("optimizer"), 0);
  }
}

TEST_F(TrainCommandTest, MemoryUnder1F1BDoesNotGrowWithTheNumberOfMicrobatches) {
  auto peaks = [&](const std::string& rows) {
    const ProgramResult result =
        train_anew({"--parallelism.pipeline_parallel_degree=4", "--training.microbatch_size=1",
                    "--training.local_batch_size=" + rows});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return metrics().back().at("memory_bytes").get<std::vector<std::int64_t>>();
  };
  const std::vector<std::int64_t> few = peaks("4"), many = peaks("256");
  // The number of messages in flight depends on timing. It is at most four, those of the warm-up.
  const std::int64_t message = 16 * 64 * 4;
  for (std::size_t rank = 0; rank < 4; ++rank)
    EXPECT_LE(std::abs(few[rank] - many[rank]), 4 * message) << "rank " << rank;
}

TEST_F(TrainCommandTest, PredictsThePeakMemoryOfEveryRank) {
  for (const std::string schedule : {"1F1B", "LoopedBFS", "ZBVZeroBubble", "DualPipeV"}) {
    SCOPED_TRACE(schedule);
    expect_predicted_peaks({"--parallelism.pipeline_parallel_schedule=" + schedule,
                            "--training.microbatch_size=1", "--training.local_batch_size=8"},
                           0.06);
  }
}

TEST_F(TrainCommandTest, PredictsThePeakMemoryOfFrozenLayersAndOfThoseThatRunTwice) {
  const std::string upper = "[\"model.layers.2.*\", \"model.layers.3.*\", \"lm_head.weight\"]";
  std::vector<double> plain;
  for (const std::string& option :
       {std::string(), std::string("--training.activation_checkpoint=full"),
        "--training.trainable=" + upper}) {
    for (const std::string schedule : {"GPipe", "ZBVZeroBubble"}) {
      std::vector<std::string> options = {"--parallelism.pipeline_parallel_schedule=" + schedule,
                                          "--training.microbatch_size=4",
                                          "--training.local_batch_size=16"};
      if (!option.empty()) options.push_back(option);
      const std::vector<double> predicted = predicted_peaks(options);
      const std::vector<double> measured = measured_peaks(options);
      // A forward-only rank mostly holds messages not yet received, whose number depends on timing.
      const bool only_forwards = option.starts_with("--training.trainable") && schedule == "GPipe";
      for (std::size_t rank = only_forwards ? 1 : 0; rank < 2; ++rank) {
        // The prediction excludes messages in flight (docs/memory.md). Two of them matter for a
        // model this small.
        constexpr double kMessage = 4 * 16 * 64 * 4;
        EXPECT_NEAR(predicted[rank], measured[rank], 0.04 * measured[rank] + 2 * kMessage)
            << option << schedule << " rank " << rank;
      }
      if (option.empty())
        plain.push_back(measured[0]);
      else
        EXPECT_LT(measured[0], plain[schedule == "GPipe" ? 0 : 1]) << option << schedule;
    }
  }
}

TEST_F(TrainCommandTest, FrozenWeightsAreInTheCheckpointAndTrainedOnesHaveTheSameBits) {
  const std::string pattern = "--training.trainable=[\"model.layers.3.*\", \"*norm.weight\"]";
  auto weights = [&](const std::string& ranks, const std::vector<std::string>& more) {
    std::vector<std::string> options = {pattern, "--parallelism.pipeline_parallel_degree=" + ranks};
    options.insert(options.end(), more.begin(), more.end());
    const ProgramResult result = train(options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::string numbers;
    for (const auto& line : metrics())
      numbers += line["loss"].dump() + " " + line["grad_norm"].dump() + "\n";
    return numbers;
  };
  const std::string alone = weights("1", {});
  EXPECT_EQ(weights("4", {}), alone);
  EXPECT_EQ(weights("2", {"--training.activation_checkpoint=[\"model.layers.2\"]"}), alone);
  const ProgramResult refused = train({"--training.trainable=[\"*.q_porj.weight\"]"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("'*.q_porj.weight' matches no parameter"), std::string::npos);
  EXPECT_NE(refused.err.find("did you mean '*q_proj.weight*'?"), std::string::npos) << refused.err;
}

TEST_F(TrainCommandTest, LossesAndWeightsAreTheSameForEveryNumberOfRanks) {
  auto run = [&](const std::string& ranks, const std::string& schedule) {
    const ProgramResult result = train({"--parallelism.pipeline_parallel_degree", ranks,
                                        "--parallelism.pipeline_parallel_schedule=" + schedule});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::string numbers;
    for (const auto& line : metrics())
      numbers += line["loss"].dump() + " " + line["grad_norm"].dump() + "\n";
    return numbers;
  };
  const std::string alone = run("1", "GPipe");
  EXPECT_EQ(run("2", "1F1B"), alone);
  EXPECT_EQ(run("4", "1F1B"), alone);
  EXPECT_EQ(run("2", "Interleaved1F1B"), alone);
}

TEST_F(TrainCommandTest, TrainsOnFromTheWeightsThatItWrote) {
  ASSERT_EQ(train().exit_code, 0);
  const double last = metrics()[2]["loss"];
  const ProgramResult again =
      train({"--model.path=" + out() + "/checkpoint/step-00000003", "--training.steps=1",
             "--checkpoint.folder=" + (folder_ / "again")});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_LT(metrics()[0]["loss"].get<double>(), last + 0.5);
}

TEST_F(TrainCommandTest, DrawsWeightsFromAConfigurationAlone) {
  const ProgramResult result =
      train({"--model.path=", "--model.config=" + kModel + "/config.json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(metrics().size(), 3u);
}

TEST_F(TrainCommandTest, ParameterNormsAreLoggedWhenAskedFor) {
  ASSERT_EQ(train({"--metrics.parameter_norms=true", "--training.steps=1"}).exit_code, 0);
  const nlohmann::json norms = metrics()[0]["parameter_grad_norms"];
  EXPECT_EQ(norms.size(), 39u);
  double squares = 0;
  for (const auto& [name, norm] : norms.items()) squares += norm.get<double>() * norm.get<double>();
  EXPECT_NEAR(std::sqrt(squares), metrics()[0]["grad_norm"].get<double>(), 1e-9);
}

TEST_F(TrainCommandTest, AWrongConfigurationIsRefusedBeforeAnythingIsCreated) {
  expect_refused({"--training.stpes=3"}, 2, "steps");
  expect_refused({"--training.steps=many"}, 2, "training.steps");
  expect_refused({"--parallelism.pipeline_parallel_degree=9"}, 2, "stages");
  expect_refused({"--training.local_batch_size=5"}, 2, "microbatch_size");
  expect_refused({"--parallelism.pipeline_parallel_schedule=1F2B"}, 2, "1F1B");
}

TEST_F(TrainCommandTest, WeightsThatDoNotFitAreRefusedBeforeAnythingIsCreated) {
  const std::string model = copied_model();
  const std::string weights = model + "/model.safetensors";
  const std::string path = "--model.path=" + model;
  fs::resize_file(weights, fs::file_size(weights) - 100);
  expect_refused({path}, 3, "model.safetensors");
  fs::remove(weights);
  expect_refused({path}, 3, "safetensors");

  fs::copy(kModel + "/model.safetensors", weights);
  auto config = nlohmann::json::parse(test::read_file(model + "/config.json"));
  config["intermediate_size"] = 96;
  test::write_file(model + "/config.json", config.dump());
  expect_refused({path}, 3, "mlp");
  expect_refused({"--model.path=" + (folder_ / "nowhere")}, 3, "nowhere");
}

TEST_F(TrainCommandTest, ACheckpointOfAnotherNumberOfLayersIsRefusedOrNamed) {
  const std::string model = copied_model();
  auto config = nlohmann::json::parse(test::read_file(model + "/config.json"));
  const int layers = config["num_hidden_layers"];
  config["num_hidden_layers"] = layers + 1;
  test::write_file(model + "/config.json", config.dump());
  expect_refused({"--model.path=" + model}, 3,
                 "config.json and the weights belong to different models: the weights have no "
                 "'model.layers." +
                     std::to_string(layers) + "'; name a folder whose files belong together\n");

  config["num_hidden_layers"] = layers - 1;
  test::write_file(model + "/config.json", config.dump());
  const ProgramResult result = train({"--model.path=" + model, "--training.steps=1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string warning = "sluice: warning: 9 tensors of " + model +
                              " are not used by the model: model.layers." +
                              std::to_string(layers - 1) + ".";
  EXPECT_TRUE(result.err.starts_with(warning)) << result.err;
  EXPECT_NE(result.err.find(" and 4 more\n"), std::string::npos) << result.err;
}

TEST_F(TrainCommandTest, PrintsTheSettingsThatAreNotTheDefaultAndWhereTheOthersAre) {
  const ProgramResult result = train({"--training.seed=7"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string settings = result.out.substr(0, result.out.find("\n\n") + 1);
  EXPECT_NE(settings.find("training.steps = 3 "), std::string::npos) << settings;
  EXPECT_NE(settings.find("# --training.seed\n"), std::string::npos) << settings;
  EXPECT_EQ(settings.find("# default"), std::string::npos) << settings;
  EXPECT_TRUE(settings.ends_with("\nall values: sluice config show " + config() + "\n"))
      << settings;
}

TEST_F(TrainCommandTest, TheDataTakesNoMoreThan80Columns) {
  const ProgramResult result = train();
  const std::string data = result.out.substr(result.out.find("\ndata: "));
  std::istringstream lines(data.substr(1, data.find("\nstep: ")));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(TrainCommandTest, TheLevelOfTheLogIsAnOptionAndAKey) {
  for (const std::string option : {"--log-level=debug", "--metrics.log_level=debug"}) {
    fs::remove_all(out());
    const ProgramResult result = train({option});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 2) << result.err;
    for (const char* stage : {"sluice: debug: rank 0: made stage 0, model.embed_tokens to ",
                              "sluice: debug: rank 1: made stage 1, "}) {
      EXPECT_NE(result.err.find(stage), std::string::npos) << result.err;
    }
  }
  fs::remove_all(out());
  expect_refused({"--log-level=loud"}, 2, "metrics.log_level");
}

TEST_F(TrainCommandTest, ARunOverAnEarlierOneWarnsOfWhatItReplaces) {
  ASSERT_EQ(train().err, "");
  std::filesystem::remove(out() + "/checkpoint/step-00000003/manifest.json");
  const ProgramResult again = train({"--checkpoint.resume=none"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(again.err, "sluice: warning: an earlier run left step-00000003 in " + out() +
                           "/checkpoint and metrics.jsonl in " + out() +
                           "; this run starts at step 1 and replaces metrics.jsonl and "
                           "step-00000003\n");
}

TEST_F(TrainCommandTest, AModelThatTheRunWouldReplaceIsRefusedAndKept) {
  ASSERT_EQ(train().exit_code, 0);
  const std::string model = out() + "/checkpoint/step-00000003";
  const auto written = fs::last_write_time(model + "/config.json");
  const std::string metrics_before = test::read_file(out() + "/metrics.jsonl");
  const ProgramResult result = train({"--model.path=" + model});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("set checkpoint.folder to another folder\n"), std::string::npos)
      << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(fs::last_write_time(model + "/config.json"), written);
  EXPECT_EQ(test::read_file(out() + "/metrics.jsonl"), metrics_before);
}

TEST_F(TrainCommandTest, AnUnknownOptionPointsAtTheKeys) {
  expect_refused(
      {"--json"}, 2,
      "unknown option '--json'; command 'sluice train'; one of: --help, --log-level, --profile, "
      "--profile-steps, or a key as --section.key VALUE: see 'sluice config reference'\n");
}

TEST_F(TrainCommandTest, DataThatCannotBeUsedIsRefusedBeforeAnythingIsCreated) {
  test::write_file(folder_ / "empty.txt", "");
  test::write_file(folder_ / "bad.jsonl", "{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": [1, 2");
  test::write_file(folder_ / "large.jsonl", "{\"input_ids\": [1, 2, 256]}\n");
  expect_refused({"--data.files=['" + (folder_ / "empty.txt") + "']"}, 3, "empty.txt");
  expect_refused({"--data.files=['" + (folder_ / "none*.txt") + "']"}, 3, "none*.txt");
  expect_refused({"--data.files=['" + (folder_ / "bad.jsonl") + "']"}, 3, "bad.jsonl:2");
  expect_refused({"--data.files=['" + (folder_ / "large.jsonl") + "']"}, 3, "large.jsonl:1");
}

TEST_F(TrainCommandTest, AFolderThatCannotBeWrittenToIsRefusedBeforeAnythingIsCreated) {
  test::write_file(folder_ / "file", "x");
  expect_refused({"--checkpoint.folder=" + (folder_ / "file/checkpoint")}, 4, "file");
  expect_refused({"--metrics.folder=" + (folder_ / "file/metrics")}, 2, "file");
  expect_refused({"--checkpoint.folder=/proc/x"}, 4,
                 "choose another folder: this one is gone, or takes no new files\n");
}

TEST_F(TrainCommandTest, ALossThatIsNotFiniteEndsTheRunAndNamesItsPlace) {
  const ProgramResult result =
      train({"--optimizer.name=SGD", "--optimizer.lr=1e38", "--optimizer.max_norm=0"});
  EXPECT_EQ(result.exit_code, 6) << result.err;
  EXPECT_NE(result.err.find("is not finite; step 2, stage "), std::string::npos) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(metrics().size(), 1u);
  // The step made no update, so the weights are those of the previous step.
  EXPECT_NE(result.out.find("ended by an error after step 1 of 3\n"), std::string::npos);
  expect_last_step_is_saved();
}

void spoil_first_value(const std::string& model, const std::string& tensor, float value) {
  std::string file = test::read_file(model + "/model.safetensors");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const auto header = nlohmann::json::parse(file.substr(8, header_bytes));
  const auto offset = header[tensor]["data_offsets"][0].get<std::uint64_t>();
  std::memcpy(file.data() + 8 + header_bytes + offset, &value, sizeof value);
  test::write_file(model + "/model.safetensors", file);
}

TEST_F(TrainCommandTest, AParameterThatIsNotFiniteIsNamed) {
  const std::string model = copied_model();
  spoil_first_value(model, "model.layers.2.mlp.up_proj.weight",
                    std::numeric_limits<float>::quiet_NaN());
  expect_refused(
      {"--model.path=" + model}, 6,
      "'logits' is not finite, nor is the parameter 'model.layers.2.mlp.up_proj.weight'; "
      "step 1, stage 1 (rank 1), microbatch 0; ");
}

TEST_F(TrainCommandTest, AnInfiniteValueThatNoBatchMeetsIsNamedWhereItIsSaved) {
  const std::string model = copied_model();
  // The text does not contain token 0, so no batch reads its embedding.
  spoil_first_value(model, "model.embed_tokens.weight", std::numeric_limits<float>::infinity());
  const ProgramResult result = train({"--model.path=" + model});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err,
            "sluice: warning: step 3 is saved with 1 number of 'model.embed_tokens.weight' that is "
            "not finite; look at the weights from which the run started\n");
}

}  // namespace
}  // namespace sluice::testing
