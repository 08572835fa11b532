// A simulated driver and device replace LibTorch's CUDA library.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cli/graph_fixture.h"

namespace sluice::testing {
namespace {

template <typename Fixture>
class OnSimulatedGpus : public Fixture {
 protected:
  using Fixture::config, Fixture::folder_, Fixture::metrics, Fixture::out;

  ProgramResult on_gpus(int gpus, std::vector<std::string> words) const {
    std::string line = "SIMULATED_GPUS=" + std::to_string(gpus) +
                       " SIMULATED_DEVICE_REPORT=" + quoted_for_shell(report()) +
                       " LD_LIBRARY_PATH=" + quoted_for_shell(libraries_) + " " + more_ +
                       quoted_for_shell(SLUICE_PROGRAM);
    for (const std::string& word : words) line += " " + quoted_for_shell(word);
    return run_shell(line);
  }
  ProgramResult train_on(int gpus, const std::string& device,
                         std::vector<std::string> more = {}) const {
    fs::remove_all(out());
    std::vector<std::string> words = {"train", config(), "--training.device=" + device};
    words.insert(words.end(), more.begin(), more.end());
    return on_gpus(gpus, words);
  }
  std::string report() const { return folder_ / "devices.txt"; }
  std::string take_report() const {
    const std::string text = test::read_file(report());
    fs::remove(report());
    return text;
  }
  void expect_no_race() const {
    const std::string report = take_report();
    EXPECT_EQ(report.find("race: "), std::string::npos) << report;
  }
  std::vector<double> losses() const {
    std::vector<double> all;
    for (const nlohmann::json& line : metrics()) all.push_back(line.at("loss"));
    return all;
  }

  struct Outcome {
    std::vector<double> numbers;
    std::string hashes;
    friend bool operator==(const Outcome&, const Outcome&) = default;
  };
  Outcome outcome() const {
    Outcome outcome;
    for (const nlohmann::json& line : metrics()) {
      for (const char* key : {"loss", "grad_norm"}) outcome.numbers.push_back(line.at(key));
      if (line.contains("validation_loss")) outcome.numbers.push_back(line["validation_loss"]);
    }
    outcome.hashes = this->hashes_of_step("step-00000003");
    return outcome;
  }
  Outcome trained_with(std::vector<std::string> words) const {
    const ProgramResult result = train_on(4, "cuda", std::move(words));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    expect_no_race();
    return outcome();
  }
  Outcome launched_with(int processes, const std::vector<std::string>& words) const {
    fs::remove_all(out());
    std::vector<std::string> line = {"launch", "-n",     std::to_string(processes), "--",
                                     "train",  config(), "--training.device=cuda"};
    line.insert(line.end(), words.begin(), words.end());
    const ProgramResult result = on_gpus(4, line);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    expect_no_race();
    return outcome();
  }

  void bring_nccl() { libraries_ += ":" SLUICE_SIMULATED_NCCL; }

  std::string more_;
  std::string libraries_ = SLUICE_SIMULATED_LIBRARIES;
};

class DeviceCommandTest : public OnSimulatedGpus<TrainCommandTest> {};
class DeviceGraphTest : public OnSimulatedGpus<GraphFixture> {};

const std::string kOneRank = "--parallelism.pipeline_parallel_degree=1";
const std::string kTwoRanks = "--parallelism.pipeline_parallel_degree=2";

TEST_F(DeviceCommandTest, CudaWithoutAGpuIsRefusedAndAutoIsTheCpu) {
  const ProgramResult refused = train_anew({"--training.device=cuda"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_NE(refused.err.find("there is no CUDA device: the driver of NVIDIA's GPUs finds none"),
            std::string::npos)
      << refused.err;
  const ProgramResult taken = train_anew({"--training.device=auto"});
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_EQ(taken.err, "");
}

TEST_F(DeviceCommandTest, RanksThatAreThreadsTrainOnDevicesWithoutARace) {
  const ProgramResult host = train_on(4, "cpu");
  ASSERT_EQ(host.exit_code, 0) << host.err;
  EXPECT_FALSE(fs::exists(report())) << "the library of devices was loaded for nothing";
  const std::vector<double> on_host = losses();

  const ProgramResult device = train_on(4, "cuda");
  ASSERT_EQ(device.exit_code, 0) << device.err;
  EXPECT_NE(device.err.find("device: cuda: 4 devices for 2 ranks"), std::string::npos)
      << device.err;
  const std::string report = take_report();
  EXPECT_NE(report.find("operators "), std::string::npos) << report;
  EXPECT_EQ(report.find("race: "), std::string::npos) << report;
  const std::vector<double> on_devices = losses();
  ASSERT_EQ(on_devices.size(), on_host.size());
  for (std::size_t i = 0; i < on_host.size(); ++i)
    EXPECT_NEAR(on_devices[i], on_host[i], 1e-3 * on_host[i]);

  const ProgramResult chosen = train_on(4, "auto");
  ASSERT_EQ(chosen.exit_code, 0) << chosen.err;
  EXPECT_EQ(losses(), on_devices);
}

TEST_F(DeviceCommandTest, RanksThatAreProcessesHaveTheSameBitsWithoutARace) {
  ASSERT_EQ(train_on(4, "cuda").exit_code, 0);
  const std::vector<double> threads = losses();
  take_report();
  fs::remove_all(out());
  const ProgramResult launched =
      on_gpus(4, {"launch", "-n", "2", "--", "train", config(), "--training.device=cuda"});
  ASSERT_EQ(launched.exit_code, 0) << launched.err;
  EXPECT_EQ(losses(), threads);
  expect_no_race();
}

TEST_F(DeviceCommandTest, TwoRanksHaveTheBitsOfOneWithEveryFeature) {
  const std::vector<std::vector<std::string>> features = {
      {"--training.mixed_precision=bfloat16"},
      {"--training.mixed_precision=bfloat16", "--training.activation_checkpoint=full"},
      {"--lora.rank=2", "--lora.dropout=0.2"},
      {"--data.pack=true", "--data.files=[\"" + (folder_ / "rows.jsonl") + "\"]"},
      {"--model.path=" SLUICE_TEST_DATA "/reference/models/gpt2"},
      {"--model.path=" SLUICE_TEST_DATA "/reference/models/llama_tied"},
      {"--validation.files=[\"" + (folder_ / "text.txt") + "\"]", "--validation.interval=1",
       "--validation.steps=2"}};
  std::string rows;
  for (int i = 0; i < 60; ++i) rows += "{\"text\": \"fox " + std::to_string(i * i) + "\"}\n";
  test::write_file(folder_ / "rows.jsonl", rows);
  const Outcome plain = trained_with({kOneRank});
  for (const std::vector<std::string>& feature : features) {
    std::vector<std::string> one = feature, two = feature;
    one.push_back(kOneRank);
    two.push_back(kTwoRanks);
    const Outcome alone = trained_with(one);
    EXPECT_FALSE(alone == plain) << feature.front() << " does nothing";
    EXPECT_TRUE(alone == trained_with(two)) << feature.front();
  }
}

TEST_F(DeviceCommandTest, RanksThatShareLayersHaveTheBitsOfTheirSlices) {
  const std::string slices = "--parallelism.tensor_parallel_slices=2";
  const std::string shared = "--parallelism.tensor_parallel_degree=2";
  const Outcome alone = trained_with({kOneRank, slices});
  EXPECT_TRUE(alone == trained_with({kTwoRanks, slices, shared}));
  EXPECT_TRUE(alone == launched_with(4, {kTwoRanks, slices, shared}));
  // Slices do not divide this length, and layers run twice.
  const std::string uneven = "--training.seq_len=15";
  EXPECT_TRUE(
      trained_with({kOneRank, slices, uneven}) ==
      trained_with({kTwoRanks, slices, shared, uneven, "--training.activation_checkpoint=full"}));
}

TEST_F(DeviceCommandTest, ReplicasHaveTheBitsOfTheirShardsInProcessesToo) {
  const std::vector<std::string> replicas = {"--parallelism.data_parallel_degree=2",
                                             "--training.local_batch_size=2"};
  const auto with = [&](const std::string& more) {
    std::vector<std::string> words = replicas;
    words.push_back(more);
    return words;
  };
  const Outcome alone = trained_with({kOneRank, "--parallelism.data_parallel_shards=2"});
  EXPECT_TRUE(alone == trained_with(with("--parallelism.zero1=true")));
  EXPECT_TRUE(alone == trained_with(with("--parallelism.zero3=true")));
  EXPECT_TRUE(alone == launched_with(4, with("--parallelism.zero1=true")));
  EXPECT_TRUE(alone == launched_with(2, with("--parallelism.zero3=true")));
}

TEST_F(DeviceCommandTest, ARunGoesOnWithOtherRanksAndOnTheCpu) {
  const Outcome whole = trained_with({kTwoRanks});
  ASSERT_EQ(train_on(4, "cuda", {kOneRank, "--training.steps=2"}).exit_code, 0);
  const ProgramResult more = on_gpus(4, {"train", config(), "--training.device=cuda", kTwoRanks});
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_NE(more.err.find("device: cuda"), std::string::npos) << more.err;
  EXPECT_TRUE(outcome() == whole);

  const ProgramResult evaluated =
      on_gpus(4, {"eval", config(), "--training.device=cuda", "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  const ProgramResult on_host = run_sluice({"eval", config(), "--training.device=cpu", "--json"});
  ASSERT_EQ(on_host.exit_code, 0) << on_host.err;
  const double loss = nlohmann::json::parse(evaluated.out).at("loss");
  EXPECT_NEAR(loss, nlohmann::json::parse(on_host.out).at("loss").get<double>(), 1e-3);
  expect_no_race();
}

// One wait is for the losses, one for the norm.
TEST_F(DeviceCommandTest, TheHostWaitsForADeviceTwiceAStepAtMost) {
  const auto waits_of = [&](const std::string& steps) {
    EXPECT_EQ(train_on(4, "cuda", {"--training.steps=" + steps}).exit_code, 0);
    std::istringstream lines(take_report());
    std::vector<int> waits;
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("host waits ", 0) == 0) waits.push_back(std::stoi(line.substr(11)));
    }
    return waits;
  };
  const std::vector<int> few = waits_of("3"), more = waits_of("7");
  ASSERT_EQ(few.size(), 4u);
  ASSERT_EQ(more.size(), 4u);
  EXPECT_EQ(more[0] - few[0], 4);
  EXPECT_EQ(more[1] - few[1], 8);
}

TEST_F(DeviceGraphTest, AnExportedGraphHasTheSameBitsWhereverItIsCut) {
  const Outcome alone = trained_with({kOneRank});
  EXPECT_TRUE(alone == trained_with({"--parallelism.pipeline_parallel_cuts=[\"blocks.0.mix\"]"}));
  EXPECT_TRUE(alone == trained_with({"--training.activation_checkpoint=full"}));
  EXPECT_TRUE(alone == launched_with(2, {}));
}

TEST_F(DeviceCommandTest, ProcessesThatDisagreeOnDevicesEndTheRun) {
  const ProgramResult result =
      on_gpus(4, {"launch", "-n", "2", "--", "sh", "-c",
                  "if [ \"$RANK\" = 0 ]; then d=cpu; else d=cuda; fi; exec \"$0\" train \"$1\" "
                  "--training.device=$d",
                  SLUICE_PROGRAM, config()});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("'device = cpu'"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("'device = cuda'"), std::string::npos) << result.err;
}

TEST_F(DeviceCommandTest, AProcessThatIsLostInATransferEndsTheOthers) {
  more_ = "SLUICE_FAULT=kill:rank=1,step=2,instruction=3 ";
  const ProgramResult lost =
      on_gpus(4, {"launch", "-n", "2", "--", "train", config(), "--training.device=cuda"});
  EXPECT_EQ(lost.exit_code, 128 + 9) << lost.err;
  EXPECT_NE(lost.err.find("rank 0 waits for "), std::string::npos) << lost.err;
  EXPECT_NE(lost.err.find("of step 2 from rank 1"), std::string::npos) << lost.err;
}

// ---- NCCL. The plug-in of these tests imitates it with sockets. ----

TEST_F(DeviceCommandTest, ProcessesOfOneGpuEachExchangeOverNcclWithTheSameBits) {
  bring_nccl();
  const Outcome alone = trained_with({kOneRank});
  for (const char* transport : {"nccl", "auto", "gloo"}) {
    const ProgramResult result = on_gpus(
        4, {"launch", "-n", "2", "--", "train", config(), "--training.device=cuda", kTwoRanks,
            std::string("--parallelism.transport=") + transport, "--checkpoint.resume=none"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err.find("device: cuda: 4 devices for 2 ranks; transport: NCCL 2.29.7") !=
                  std::string::npos,
              transport != std::string("gloo"))
        << result.err;
    EXPECT_TRUE(outcome() == alone) << transport;
    fs::remove_all(out());
  }
  const std::vector<std::string> replicas = {"--parallelism.data_parallel_degree=2",
                                             "--training.local_batch_size=2",
                                             "--parallelism.transport=nccl"};
  const auto with = [&](const std::string& more) {
    std::vector<std::string> words = replicas;
    words.push_back(more);
    return words;
  };
  const Outcome shards = trained_with({kOneRank, "--parallelism.data_parallel_shards=2"});
  EXPECT_TRUE(shards == launched_with(4, with("--parallelism.zero1=true")));
  const std::string slices = "--parallelism.tensor_parallel_slices=2";
  EXPECT_TRUE(trained_with({kOneRank, slices}) ==
              launched_with(4, {kTwoRanks, slices, "--parallelism.tensor_parallel_degree=2",
                                "--parallelism.transport=nccl"}));
}

TEST_F(DeviceCommandTest, AProcessThatIsLostEndsTheOthersOverNcclToo) {
  bring_nccl();
  more_ = "SLUICE_FAULT=kill:rank=1,step=2,instruction=3 ";
  const ProgramResult lost = on_gpus(4, {"launch", "-n", "2", "--", "train", config(),
                                         "--training.device=cuda", "--parallelism.transport=nccl"});
  EXPECT_EQ(lost.exit_code, 128 + 9) << lost.err;
}

TEST_F(DeviceCommandTest, NcclThatCannotBeUsedIsRefusedAndAutoSaysWhyItIsGloo) {
  const auto launched = [&](const std::string& transport, int processes,
                            std::vector<std::string> more = {}) {
    fs::remove_all(out());
    std::vector<std::string> words = {
        "launch", "-n",     std::to_string(processes), "--",
        "train",  config(), "--training.device=cuda",  "--parallelism.transport=" + transport};
    words.insert(words.end(), more.begin(), more.end());
    return on_gpus(4, words);
  };
  const auto expect_refused = [](const ProgramResult& refused, const std::string& reason) {
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    EXPECT_NE(refused.err.find("NCCL cannot be used: " + reason), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("parallelism.transport = \"nccl\""), std::string::npos)
        << refused.err;
  };
  const std::string no_plugin = "the plug-in for NCCL cannot be loaded (libsluice_nccl.so: ";
  expect_refused(launched("nccl", 2), no_plugin);
  const ProgramResult chosen = launched("auto", 2);
  EXPECT_EQ(chosen.exit_code, 0) << chosen.err;
  EXPECT_NE(chosen.err.find("; transport: Gloo, not NCCL: " + no_plugin), std::string::npos)
      << chosen.err;

  bring_nccl();
  more_ = "SIMULATED_NCCL_VERSION=22703 ";
  expect_refused(launched("nccl", 2),
                 "the plug-in was built for NCCL 2.29.7, but NCCL 2.27.3 is loaded "
                 "(process 0)");
  more_ = "SLUICE_SHARE_DEVICE=1 ";
  expect_refused(launched("nccl", 2),
                 "it needs a GPU for each rank, but SLUICE_SHARE_DEVICE lets ranks share one");
  more_.clear();
  expect_refused(launched("nccl", 2, {"--parallelism.pipeline_parallel_degree=4"}),
                 "it needs one rank per process, but each process has 2");

  const std::string differs =
      "if [ \"$RANK\" = 1 ]; then export SIMULATED_NCCL_VERSION=22908; fi; exec \"$0\" train "
      "\"$1\" --training.device=cuda --parallelism.transport=nccl";
  expect_refused(
      on_gpus(4, {"launch", "-n", "2", "--", "sh", "-c", differs, SLUICE_PROGRAM, config()}),
      "NCCL 2.29.7 in process 0, NCCL 2.29.8 in process 1");

  const ProgramResult threads = train_on(4, "cuda", {"--parallelism.transport=nccl"});
  EXPECT_EQ(threads.exit_code, 2) << threads.err;
  EXPECT_NE(threads.err.find("sluice launch -n 2"), std::string::npos) << threads.err;
}

TEST_F(DeviceCommandTest, TooFewGpusAreRefusedAndAutoSaysWhyItIsTheCpu) {
  const ProgramResult refused = train_on(1, "cuda");
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  const ProgramResult plan = on_gpus(1, {"plan", config()});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_NE(plan.out.find("device: cpu, since this machine has 1 device for 2 ranks"),
            std::string::npos)
      << plan.out;
}

TEST_F(DeviceCommandTest, ThePlanGoesByTheMemoryOfTheDevices) {
  const ProgramResult plan = on_gpus(2, {"plan", config(), "--training.device=cuda"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_NE(plan.out.find("device: cuda, 2 devices for 2 ranks, 16.00GiB each (Simulated GPU)"),
            std::string::npos)
      << plan.out;
  const std::vector<std::string> large = {"plan", config(), "--training.device=cuda",
                                          "--training.microbatch_size=1048576",
                                          "--training.local_batch_size=1048576"};
  const ProgramResult warned = on_gpus(2, large);
  EXPECT_NE((warned.out + warned.err).find("16.00GiB"), std::string::npos)
      << warned.out << warned.err;
}

TEST_F(DeviceCommandTest, ADeviceWithoutMemoryEndsTheRunWithRankAndStage) {
  more_ = "SIMULATED_DEVICE_BYTES=600000 ";
  const ProgramResult full = train_on(2, "cuda");
  EXPECT_EQ(full.exit_code, 7) << full.err;
  EXPECT_NE(full.err.find("out of memory: "), std::string::npos) << full.err;
  EXPECT_NE(full.err.find("could not be allocated"), std::string::npos) << full.err;
  EXPECT_NE(full.err.find(" are predicted for the rank); rank "), std::string::npos) << full.err;
}

TEST_F(DeviceCommandTest, ADeviceThatFailsInAStepEndsTheRunWithTheInstruction) {
  more_ = "SIMULATED_DEVICE_FAILS_AT=1500 ";
  const ProgramResult lost = train_on(2, "cuda");
  EXPECT_EQ(lost.exit_code, 1) << lost.err;
  EXPECT_NE(lost.err.find("unspecified launch failure"), std::string::npos) << lost.err;
  EXPECT_NE(lost.err.find("instruction "), std::string::npos) << lost.err;
}

TEST_F(DeviceCommandTest, TimesAreNotMeasuredForDevices) {
  const ProgramResult refused = train_on(4, "cuda", {"--parallelism.partition=measured"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_NE(refused.err.find("layers are timed on the CPU"), std::string::npos) << refused.err;
}

TEST_F(DeviceCommandTest, AWrongValueOfTheVariableForSharingIsRefused) {
  const ProgramResult refused =
      run_shell("SLUICE_SHARE_DEVICE=yes " + quoted_for_shell(SLUICE_PROGRAM) + " plan " +
                quoted_for_shell(config()));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("'yes' is neither 0 nor 1; SLUICE_SHARE_DEVICE"), std::string::npos)
      << refused.err;
}

}  // namespace
}  // namespace sluice::testing
