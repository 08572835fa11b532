// Language models inside vision-language models. Training keeps and saves all other tensors.
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

using nlohmann::json;

const std::string kNested = SLUICE_TEST_DATA "/reference/nested/";

// Name -> {dtype, bytes}
using Stored = std::map<std::string, std::pair<std::string, std::string>>;

Stored tensors_in(const std::string& directory) {
  Stored tensors;
  for (const std::string& file : test::list_directory(directory)) {
    if (!file.ends_with(".safetensors")) continue;
    const std::string bytes = test::read_file(directory + "/" + file);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    const json header = json::parse(bytes.substr(sizeof length, length));
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const std::size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
      EXPECT_FALSE(tensors.contains(name)) << name << " is in two files";
      tensors[name] = {entry["dtype"], bytes.substr(sizeof length + length + begin, end - begin)};
    }
  }
  return tensors;
}

bool is_text(const std::string& name) {
  return name.starts_with("language_model.") || name.starts_with("model.") ||
         name == "lm_head.weight";
}

class TrainNestedTest : public TrainCommandTest, public ::testing::WithParamInterface<std::string> {
 protected:
  std::string model() const { return kNested + GetParam(); }

  ProgramResult train_nested(std::vector<std::string> overrides) const {
    overrides.insert(overrides.begin(), "--model.path=" + model());
    return train(std::move(overrides));
  }
  std::string checkpoint(int step) const {
    return out() + "/checkpoint/step-0000000" + std::to_string(step);
  }
  json write_reference_rows() const {
    const json expected = json::parse(test::read_file(model() + "/expected.json"));
    std::string rows;
    for (const auto& ids : expected["input_ids"]) rows += json{{"input_ids", ids}}.dump() + "\n";
    test::write_file(folder_ / "rows.jsonl", rows);
    return expected;
  }
  std::vector<std::string> on_reference_rows() const {
    return {"--data.files=[\"" + (folder_ / "rows.jsonl") + "\"]", "--data.shuffle=false",
            "--training.seq_len=10", "--training.local_batch_size=3",
            "--training.microbatch_size=1"};
  }
};

INSTANTIATE_TEST_SUITE_P(Models, TrainNestedTest, ::testing::Values("llava", "qwen2_vl"),
                         [](const auto& test) { return test.param; });

TEST_P(TrainNestedTest, LossAndGradientsAreThoseOfTransformers) {
  const json expected = write_reference_rows();
  std::vector<std::string> options = on_reference_rows();
  options.insert(options.end(), {"--training.steps=1", "--metrics.parameter_norms=true"});
  const ProgramResult trained = train_nested(options);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const json line = metrics().at(0);
  EXPECT_NEAR(line["loss"].get<double>(), expected["loss"].get<double>(), 1e-5);
  const json& norms = line["parameter_grad_norms"];
  EXPECT_EQ(norms.size(), expected["grad_norms"].size());
  for (const auto& [name, norm] : expected["grad_norms"].items()) {
    ASSERT_TRUE(norms.contains(name)) << name;
    EXPECT_NEAR(norms[name].get<double>(), norm.get<double>(), 1e-4 * norm.get<double>()) << name;
  }
}

TEST_P(TrainNestedTest, WhatIsNoTextIsWrittenBackByteForByte) {
  const ProgramResult trained = train_nested({"--training.steps=2"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(trained.err.find("not used"), std::string::npos) << trained.err;
  const Stored before = tensors_in(model()), after = tensors_in(checkpoint(2));
  std::size_t num_kept = 0;
  for (const auto& [name, tensor] : before) {
    ASSERT_TRUE(after.contains(name)) << name;
    if (is_text(name)) {
      EXPECT_NE(after.at(name).second, tensor.second) << name << " was not trained";
    } else {
      EXPECT_EQ(after.at(name), tensor) << name;
      ++num_kept;
    }
  }
  EXPECT_EQ(after.size(), before.size());
  EXPECT_GT(num_kept, 5u);

  const json index = json::parse(test::read_file(checkpoint(2) + "/model.safetensors.index.json"));
  EXPECT_EQ(index["weight_map"].size(), before.size());
  json was = json::parse(test::read_file(model() + "/config.json")),
       is = json::parse(test::read_file(checkpoint(2) + "/config.json"));
  EXPECT_EQ(is, was);
}

TEST_P(TrainNestedTest, ItGoesOnAndIsEvaluatedAtAnotherNumberOfStages) {
  ASSERT_EQ(train_nested({"--training.steps=4"}).exit_code, 0);
  const Stored straight = tensors_in(checkpoint(4));
  fs::remove_all(out());
  ASSERT_EQ(train_nested({"--training.steps=2"}).exit_code, 0);
  const ProgramResult resumed =
      train_nested({"--training.steps=4", "--parallelism.pipeline_parallel_degree=1"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(tensors_in(checkpoint(4)), straight);

  // Training from a checkpoint keeps the other tensors again.
  const auto loss_of = [&](const std::vector<std::string>& options) {
    std::vector<std::string> words = {"eval", config(), "--json"};
    words.insert(words.end(), options.begin(), options.end());
    const ProgramResult result = run_sluice(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out)["loss"];
  };
  const json loss = loss_of({"--model.path=" + model(), "--checkpoint=" + checkpoint(4)});
  EXPECT_EQ(loss_of({"--model.path=" + checkpoint(4)}), loss);
  const ProgramResult again = train({"--model.path=" + checkpoint(4), "--training.steps=1",
                                     "--checkpoint.folder=" + (folder_ / "again")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  for (const auto& [name, tensor] : tensors_in(folder_ / "again/step-00000001")) {
    if (!is_text(name)) {
      EXPECT_EQ(tensor, straight.at(name)) << name;
    }
  }
}

TEST_P(TrainNestedTest, CheckpointsAreVerifiedExportedAndCompared) {
  ASSERT_EQ(train_nested({"--training.steps=2", "--checkpoint.interval=1"}).exit_code, 0);
  EXPECT_EQ(run_sluice({"checkpoint", "verify", checkpoint(2)}).exit_code, 0);
  ASSERT_EQ(run_sluice({"checkpoint", "export", checkpoint(2), folder_ / "exported"}).exit_code, 0);
  EXPECT_EQ(tensors_in(folder_ / "exported"), tensors_in(checkpoint(2)));
  const ProgramResult diff = run_sluice({"checkpoint", "diff", checkpoint(1), checkpoint(2)});
  EXPECT_NE(diff.out.find("layers.0"), std::string::npos) << diff.out << diff.err;
  EXPECT_EQ(diff.out.find("vis"), std::string::npos) << diff.out;

  std::string kept;
  for (const std::string& file : test::list_directory(checkpoint(2))) {
    if (file.starts_with("kept-")) kept = checkpoint(2) + "/" + file;
  }
  ASSERT_NE(kept, "");
  std::string bytes = test::read_file(kept);
  bytes.back() ^= 1;
  test::write_file(kept, bytes);
  EXPECT_EQ(run_sluice({"checkpoint", "verify", checkpoint(2)}).exit_code, 4);
}

TEST_P(TrainNestedTest, FrozenPartsAreNamedAsInTheFiles) {
  const std::string base = GetParam() == "llava" ? "language_model.model." : "model.";
  ASSERT_EQ(
      train_nested({"--training.steps=2", "--training.trainable=[\"" + base + "layers.1.*\"]"})
          .exit_code,
      0);
  const Stored before = tensors_in(model()), after = tensors_in(checkpoint(2));
  for (const auto& [name, tensor] : before) {
    EXPECT_EQ(after.at(name) != tensor, name.starts_with(base + "layers.1.")) << name;
  }
}

class NestedModelRefusalTest : public TrainCommandTest {};

TEST_F(NestedModelRefusalTest, AnUnknownLanguageModelIsNamedByItsField) {
  fs::copy(kNested + "llava", folder_ / "model");
  json config = json::parse(test::read_file(folder_ / "model/config.json"));
  config["text_config"]["model_type"] = "fuyu_text";
  test::write_file(folder_ / "model/config.json", config.dump());
  expect_refused({"--model.path=" + (folder_ / "model")}, 3, "field 'text_config.model_type'");
}

}  // namespace
}  // namespace sluice::testing
