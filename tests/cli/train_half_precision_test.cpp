#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

const std::string kMixed = "--training.mixed_precision=bfloat16";
const std::string kBfloat16 = "--model.dtype=bfloat16";
const std::string kFloat16 = "--model.dtype=float16";

class TrainHalfPrecisionTest : public TrainCommandTest {
 protected:
  std::vector<double> losses(std::vector<std::string> options) const {
    options.emplace_back("--checkpoint.resume=none");
    const ProgramResult result = train(std::move(options));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<double> losses;
    for (const nlohmann::json& line : metrics()) losses.push_back(line.at("loss"));
    return losses;
  }
  std::vector<double> losses_and_norms(std::vector<std::string> options) const {
    std::vector<double> numbers = losses(std::move(options));
    for (const nlohmann::json& line : metrics()) numbers.push_back(line.at("grad_norm"));
    return numbers;
  }
  std::string checkpoint(const std::string& step) const {
    return out() + "/checkpoint/step-000000" + step;
  }
  double evaluate(const std::string& path, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"eval", config(), "--json", "--checkpoint=" + path};
    words.insert(words.end(), more.begin(), more.end());
    return nlohmann::json::parse(run_sluice(words).out).at("loss").get<double>();
  }
  static std::uintmax_t bytes_in(const std::string& directory) {
    std::uintmax_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(directory)) {
      if (entry.path().extension() == ".safetensors") bytes += entry.file_size();
    }
    return bytes;
  }
  std::string model_with(const std::string& tensor, float value) const {
    const std::string path = copied_model() + "/model.safetensors";
    std::string file = test::read_file(path);
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
    const auto header = nlohmann::json::parse(file.substr(8, header_bytes));
    const auto place = header[tensor]["data_offsets"].get<std::vector<std::uint64_t>>();
    for (std::uint64_t at = place[0]; at < place[1]; at += sizeof value)
      std::memcpy(file.data() + 8 + header_bytes + at, &value, sizeof value);
    test::write_file(path, file);
    return folder_ / "model";
  }
};

TEST_F(TrainHalfPrecisionTest, TrainsNearFloat32) {
  const std::vector<double> wide = losses({"--training.steps=20"});
  for (const auto& [precision, tolerance] :
       {std::pair(kMixed, 0.01), std::pair(kBfloat16, 0.01), std::pair(kFloat16, 0.0025)}) {
    const std::vector<double> narrow = losses({"--training.steps=20", precision});
    ASSERT_EQ(narrow.size(), wide.size());
    EXPECT_NE(narrow, wide);
    for (std::size_t step = 0; step < wide.size(); ++step)
      EXPECT_NEAR(narrow[step], wide[step], tolerance * wide[step]) << precision << " " << step;
  }
}

TEST_F(TrainHalfPrecisionTest, HasTheSameBitsForEveryLayout) {
  const std::string ranks = "--parallelism.pipeline_parallel_degree=",
                    schedule = "--parallelism.pipeline_parallel_schedule=";
  for (const std::string& precision : {kMixed, kBfloat16, kFloat16}) {
    const std::vector<double> alone = losses_and_norms({precision, ranks + "1"});
    EXPECT_EQ(losses_and_norms({precision}), alone) << precision;
    EXPECT_EQ(losses_and_norms({precision, ranks + "4"}), alone) << precision;
    for (const char* name : {"GPipe", "Interleaved1F1B", "ZBVZeroBubble"})
      EXPECT_EQ(losses_and_norms({precision, schedule + name}), alone) << precision << name;
  }
}

TEST_F(TrainHalfPrecisionTest, ACheckpointKeepsTheTypeOfTheParameters) {
  losses({kMixed});
  const std::uintmax_t wide = bytes_in(checkpoint("03"));
  EXPECT_NE(test::read_file(checkpoint("03") + "/config.json").find("\"float32\""),
            std::string::npos);
  for (const auto& [precision, name] :
       {std::pair(kBfloat16, "\"bfloat16\""), std::pair(kFloat16, "\"float16\"")}) {
    losses({precision});
    EXPECT_NEAR(static_cast<double>(bytes_in(checkpoint("03"))), static_cast<double>(wide) / 2,
                0.02 * static_cast<double>(wide));
    EXPECT_NE(test::read_file(checkpoint("03") + "/config.json").find(name), std::string::npos);
    const double loss = evaluate(checkpoint("03"), {precision});
    EXPECT_EQ(evaluate(checkpoint("03"), {precision, "--parallelism.pipeline_parallel_degree=1"}),
              loss);
    EXPECT_NEAR(evaluate(checkpoint("03"), {}), loss, 0.02);
  }
}

TEST_F(TrainHalfPrecisionTest, WeightsOfOneTypeAreLoadedIntoAModelOfAnother) {
  for (const std::string& precision : {kBfloat16, kFloat16}) {
    losses({precision});
    const std::string half = folder_ / "half", wide = folder_ / "wide";
    fs::rename(checkpoint("03"), half);
    const double loss = evaluate(half, {precision});
    // With lr=0 the saved float32 values must equal the loaded ones.
    losses({"--model.path=" + half, "--optimizer.lr=0", "--training.steps=1"});
    fs::rename(checkpoint("01"), wide);
    EXPECT_NE(test::read_file(wide + "/config.json").find("\"float32\""), std::string::npos);
    EXPECT_EQ(evaluate(wide, {precision}), loss) << precision;
    EXPECT_EQ(evaluate(wide, {}), evaluate(half, {})) << precision;
    fs::remove_all(half);
    fs::remove_all(wide);
  }
}

TEST_F(TrainHalfPrecisionTest, WeightsThatFloat16CannotHoldAreRefused) {
  const std::string model = model_with("model.layers.2.mlp.up_proj.weight", 70000.0f);
  expect_refused({"--model.path=" + model, kFloat16}, 3,
                 "float16 cannot hold 70000: it ends at 65504");
}

TEST_F(TrainHalfPrecisionTest, AValueThatLeavesTheRangeOfFloat16EndsTheRunAndNamesBfloat16) {
  // The weights are finite in float16, but their products with the activations are not.
  const std::string model = "--model.path=" + model_with("model.norm.weight", 60000.0f);
  expect_refused({model, kFloat16}, 6,
                 "'logits' is not finite; step 1, stage 1 (rank 1), microbatch 0; no update was "
                 "made; float16 ends at 65504, and the loss is not scaled: use bfloat16 "
                 "(model.dtype) with the range of float32");
  losses({model, kBfloat16});
}

TEST_F(TrainHalfPrecisionTest, PredictsThePeakMemoryOfEveryRank) {
  const std::pair<std::string, std::string> runs[] = {{"llama_untied", "1F1B"},
                                                      {"gpt2", "ZBVZeroBubble"}};
  for (const std::string& precision : {kMixed, kBfloat16, kFloat16}) {
    for (const auto& [model, schedule] : runs) {
      SCOPED_TRACE(precision + " " + model);
      expect_predicted_peaks({"--parallelism.pipeline_parallel_schedule=" + schedule, precision,
                              "--model.path=" SLUICE_TEST_DATA "/reference/models/" + model,
                              "--training.seq_len=64", "--training.local_batch_size=8"},
                             0.06);
    }
  }
}

}  // namespace
}  // namespace sluice::testing
