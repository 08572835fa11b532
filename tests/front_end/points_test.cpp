// The command's own code plans, trains, evaluates, saves and resumes a third kind of model.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "command/job.h"
#include "front_end/points_kind.h"
#include "io/step_name.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

class PointsTest : public testing::Test {
 protected:
  PointsTest() {
    test::write_file(folder_ / "model/config.json",
                     R"({"model_type": "points", "width": 8, "blocks": 3})");
    std::string rows;
    for (int i = 0; i < 64; ++i) {
      const double x = 0.1 * i - 3.05;
      rows += "{\"x\": [" + std::to_string(x) +
              ", 1, -1, 0.5], \"y\": " + std::to_string(i % 4 == 0 ? 0.0 : x / 4) + "}\n";
    }
    test::write_file(folder_ / "points.jsonl", rows);
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~PointsTest() override { set_log_sink({}); }

  RunConfig config(Overrides more) const {
    Overrides all = {{"model.config", folder_ / "model"},
                     {"data.files", "[\"" + (folder_ / "points.jsonl") + "\"]"},
                     {"training.steps", "40"},
                     {"training.local_batch_size", "8"},
                     {"training.microbatch_size", "2"},
                     {"optimizer.lr", "0.02"},
                     {"parallelism.pipeline_parallel_degree", "2"},
                     {"checkpoint.folder", folder_ / "out/checkpoint"},
                     {"metrics.folder", folder_ / "out"}};
    all.insert(all.end(), more.begin(), more.end());
    return load_run_config("", all, {}, test::kinds_with_points());
  }

  void train(const RunConfig& config) {
    StopSignal stop;
    TrainingJob job(config, stop);
    job.train();
    EXPECT_EQ(job.close(), 0);
  }

  std::string weights_of_step(const std::string& out, int step) const {
    return test::read_file(folder_ / out + "/checkpoint/" + io::step_name(step) +
                           "/model.safetensors");
  }

  test::TempDirectory folder_;
};

TEST_F(PointsTest, PlansItsLayersOnTheRanks) {
  const Plan plan = plan_of_config(config({}));
  EXPECT_EQ(plan.model.layers.size(), 5U);
  EXPECT_EQ(plan.model.num_parameters(), 8 * 4 + 8 + 3 * (8 * 8 + 8) + 8 + 1);
  EXPECT_EQ(plan.partition.num_stages(), 2);
}

TEST_F(PointsTest, TrainsEvaluatesSavesAndResumesWithTheSameBits) {
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"checkpoint.folder", folder_ / "parts/checkpoint"}, {"metrics.folder", folder_ / "parts"}};
  train(config({}));
  Overrides first = parts;
  first.emplace_back("training.steps", "15");
  train(config(first));
  train(config(parts));  // resumes at step 16
  EXPECT_EQ(weights_of_step("parts", 40), weights_of_step("out", 40));

  const RunConfig evaluated = config(
      {{"model.config", ""}, {"model.path", folder_ / "out/checkpoint/" + io::step_name(40)}});
  EXPECT_EQ(plan_of_config(evaluated).model.family, "points");
  const Evaluation result = evaluate(evaluated, plan_of_config(evaluated));
  EXPECT_EQ(result.tokens, 48);  // 64 rows, of which every fourth has no target
  EXPECT_LT(result.loss, 0.05);
}

TEST_F(PointsTest, RefusesAdaptersInItsOwnWords) {
  const std::string message = test::message_of([&] {
    plan_of_config(config({{"lora.rank", "4"}}));
  });
  EXPECT_NE(message.find("points have few weights: train all of them"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace sluice
