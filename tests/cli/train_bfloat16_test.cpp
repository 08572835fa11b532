// `sluice train` in bfloat16: mixed precision, and the whole model.
#include <gtest/gtest.h>

#include <utility>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

const std::string kMixed = "--training.mixed_precision=bfloat16";
const std::string kWhole = "--model.dtype=bfloat16";

class TrainBfloat16Test : public TrainCommandTest {
 protected:
  std::vector<double> losses(std::vector<std::string> options) const {
    const ProgramResult result = train(std::move(options));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<double> losses;
    for (const nlohmann::json& line : metrics()) losses.push_back(line.at("loss"));
    return losses;
  }
  std::string checkpoint(const std::string& step) const {
    return out() + "/checkpoint/step-000000" + step;
  }
  static std::uintmax_t bytes_in(const std::string& directory) {
    std::uintmax_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(directory)) {
      if (entry.path().extension() == ".safetensors") bytes += entry.file_size();
    }
    return bytes;
  }
};

TEST_F(TrainBfloat16Test, TrainsNearFloat32) {
  const std::vector<double> wide = losses({"--training.steps=20"});
  for (const std::string& precision : {kMixed, kWhole}) {
    const std::vector<double> narrow = losses({"--training.steps=20", precision});
    ASSERT_EQ(narrow.size(), wide.size());
    EXPECT_NE(narrow, wide);
    for (std::size_t step = 0; step < wide.size(); ++step)
      EXPECT_NEAR(narrow[step], wide[step], 0.01 * wide[step]) << precision << " " << step;
  }
}

TEST_F(TrainBfloat16Test, HasTheSameBitsForEveryLayout) {
  for (const std::string& precision : {kMixed, kWhole}) {
    const std::vector<double> alone =
        losses({precision, "--parallelism.pipeline_parallel_degree=1"});
    EXPECT_EQ(losses({precision}), alone) << precision;
    EXPECT_EQ(losses({precision, "--parallelism.pipeline_parallel_degree=4"}), alone) << precision;
    EXPECT_EQ(losses({precision, "--parallelism.pipeline_parallel_schedule=ZBVZeroBubble"}), alone)
        << precision;
  }
}

TEST_F(TrainBfloat16Test, ACheckpointKeepsTheTypeOfTheParameters) {
  losses({kMixed});
  const std::uintmax_t wide = bytes_in(checkpoint("03"));
  EXPECT_NE(test::read_file(checkpoint("03") + "/config.json").find("\"float32\""),
            std::string::npos);
  losses({kWhole});
  EXPECT_NEAR(static_cast<double>(bytes_in(checkpoint("03"))), static_cast<double>(wide) / 2,
              0.02 * static_cast<double>(wide));
  EXPECT_NE(test::read_file(checkpoint("03") + "/config.json").find("\"bfloat16\""),
            std::string::npos);
  const auto loss_of = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"eval", config(), "--json",
                                      "--checkpoint=" + checkpoint("03")};
    words.insert(words.end(), more.begin(), more.end());
    return nlohmann::json::parse(run_sluice(words).out).at("loss").get<double>();
  };
  EXPECT_EQ(loss_of({kWhole}), loss_of({kWhole, "--parallelism.pipeline_parallel_degree=1"}));
  EXPECT_NEAR(loss_of({kWhole}), loss_of({}), 0.02);
}

TEST_F(TrainBfloat16Test, PredictsThePeakMemoryOfEveryRank) {
  const std::pair<std::string, std::string> runs[] = {{"llama_untied", "1F1B"},
                                                      {"gpt2", "ZBVZeroBubble"}};
  for (const std::string& precision : {kMixed, kWhole}) {
    for (const auto& [model, schedule] : runs) {
      const std::vector<std::string> options = {
          "--parallelism.pipeline_parallel_schedule=" + schedule, precision,
          "--model.path=" SLUICE_TEST_DATA "/reference/models/" + model, "--training.seq_len=64",
          "--training.local_batch_size=8"};
      const ProgramResult result = train(options);
      ASSERT_EQ(result.exit_code, 0) << result.err;
      std::vector<std::string> planned = {"plan", config(), "--json"};
      planned.insert(planned.end(), options.begin(), options.end());
      const auto memory = nlohmann::json::parse(run_sluice(planned).out).at("memory");
      const auto measured = metrics().back().at("memory_bytes").get<std::vector<double>>();
      for (std::size_t rank = 0; rank < 2; ++rank) {
        EXPECT_NEAR(memory[rank].at("total_bytes").get<double>() / measured[rank], 1, 0.06)
            << precision << " " << model << " " << schedule << " rank " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::testing
