#include <gtest/gtest.h>

#include <filesystem>

#include "base/text.h"
#include "support/run_program.h"

namespace sluice::testing {
namespace {

class ImportCommandTest : public ::testing::Test {
 protected:
  // The folder has a model in ./model, and rows in ./rows.jsonl and ./data.
  ImportCommandTest() {
    std::filesystem::create_directories(folder_ / "model");
    std::filesystem::copy_file(
        std::string(SLUICE_TEST_DATA) + "/reference/models/llama_untied/config.json",
        folder_ / "model/config.json");
    std::string rows;
    for (int i = 0; i < 200; ++i)
      rows += "{\"text\": \"some words and " + std::to_string(i) + "\"}\n";
    for (const char* file : {"rows.jsonl", "data/words.jsonl"})
      test::write_file(folder_ / file, rows);
    test::write_file(folder_ / "data/dataset_info.json",
                     "{\"words\": {\"file_name\": \"words.jsonl\"}}");
  }
  ProgramResult run(const std::string& arguments) {
    return run_shell("cd " + quoted_for_shell(folder_.str()) + " && " +
                     quoted_for_shell(SLUICE_PROGRAM) + " " + arguments);
  }
  test::TempDirectory folder_;
};

TEST_F(ImportCommandTest, WhatItWritesPassesTheCheck) {
  test::write_file(folder_ / "axolotl.yml", R"(base_model: ./model
adapter: lora
lora_r: 8
lora_alpha: 16
lora_target_linear: true
datasets:
  - path: rows.jsonl
    type: completion
sequence_len: 64
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 3
max_steps: 20
num_epochs: 2
warmup_ratio: 0.1
val_set_size: 0.1
evals_per_epoch: 2
saves_per_epoch: 1
optimizer: adamw_bnb_8bit
lr_scheduler: cosine
learning_rate: 2e-4
bf16: auto
weight_decay: 0.1
)");
  test::write_file(folder_ / "factory.yaml", R"(model_name_or_path: model
stage: sft
finetuning_type: full
dataset: words
template: default
cutoff_len: 64
per_device_train_batch_size: 1
max_steps: 20
warmup_steps: 0.1
weight_decay: 0.1
)");
  test::write_file(folder_ / "tune.yaml", R"(checkpointer:
  _component_: torchtune.training.FullModelHFCheckpointer
  checkpoint_dir: ./model
dataset:
  _component_: torchtune.datasets.text_completion_dataset
  source: json
  data_files: rows.jsonl
tokenizer:
  max_seq_len: 64
batch_size: 2
optimizer:
  _component_: torch.optim.AdamW
  lr: 2e-5
epochs: 2
)");
  test::write_file(
      folder_ / "trl.sh",
      "trl sft --model_name_or_path ./model --dataset_name rows.jsonl --max_length 64 "
      "--max_steps 20 --use_peft --lora_target_modules q_proj v_proj --eval_steps 5\n");
  for (const char* file : {"axolotl.yml", "factory.yaml", "tune.yaml", "trl.sh"}) {
    const ProgramResult imported = run(std::string("config import ") + file + " --out run.toml");
    ASSERT_EQ(imported.exit_code, 0) << imported.err;
    EXPECT_EQ(imported.out, "");
    const ProgramResult checked = run("config check run.toml --data.tokenizer bytes");
    EXPECT_EQ(checked.exit_code, 0) << file << "\n"
                                    << checked.err << test::read_file(folder_ / "run.toml");
    EXPECT_EQ(run(std::string("config import ") + file).out, test::read_file(folder_ / "run.toml"));
  }
}

TEST_F(ImportCommandTest, StderrAndTheFileNameWhatWasLeftOut) {
  test::write_file(folder_ / "a.yml", "base_model: ./model\nload_in_4bit: true\n");
  const ProgramResult imported = run("config import a.yml");
  const std::string note = "left out: line 2: load_in_4bit = true: weights are not quantized\n";
  EXPECT_NE(imported.out.find("# " + note), std::string::npos) << imported.out;
  EXPECT_NE(imported.err.find("sluice: info: " + note), std::string::npos) << imported.err;
}

TEST_F(ImportCommandTest, RefusesWithOneLine) {
  test::write_file(folder_ / "a.yml", "base_model: m\nrl: kto\n");
  const auto error_of = [&](const std::string& arguments, int code) {
    const ProgramResult result = run("config import " + arguments);
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(split(result.err, '\n').size(), 2u) << result.err;
    return result.err;
  };
  EXPECT_NE(error_of("a.yml", 2).find("rl = \"kto\" trains what sluice cannot train; a.yml; "),
            std::string::npos);
  EXPECT_NE(error_of("a.yml --from lora", 2).find("--from; one of: axolotl, "), std::string::npos);
  const std::string text = test::read_file(folder_ / "a.yml");
  EXPECT_NE(error_of("a.yml --out ./a.yml", 2).find("--out is the file to import"),
            std::string::npos);
  EXPECT_EQ(test::read_file(folder_ / "a.yml"), text);
  EXPECT_NE(error_of("a.yml --training.steps 5", 2).find("an import takes no keys; --training"),
            std::string::npos);
  EXPECT_NE(error_of("none.yml", 2).find("none.yml"), std::string::npos);
  EXPECT_NE(error_of("''", 2).find("the file has no name"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run.toml"));
}

TEST_F(ImportCommandTest, InitWritesChatsThatPassTheCheck) {
  const ProgramResult result = run("init start --chat");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out,
            "start/finetune.toml: a tiny model on the ten conversations of start/chats.jsonl\n\n"
            "  sluice plan start/finetune.toml\n  sluice train start/finetune.toml\n");
  EXPECT_EQ(run("config check start/finetune.toml").exit_code, 0)
      << run("config check start/finetune.toml").err;
  EXPECT_EQ(split(test::read_file(folder_ / "start/chats.jsonl"), '\n').size(), 11u);
  EXPECT_EQ(run("init start --chat").exit_code, 2);
  EXPECT_EQ(run("init other --model model").exit_code, 2);
  EXPECT_NE(run("init other --chat --model none").err.find("no config.json"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "other"));
}

TEST_F(ImportCommandTest, InitTakesAModel) {
  EXPECT_EQ(run("init start --chat --model model").exit_code, 0);
  const std::string text = test::read_file(folder_ / "start/finetune.toml");
  EXPECT_NE(text.find("path = \"../model\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("rank = 8 "), std::string::npos);
  EXPECT_EQ(run("config check start/finetune.toml --data.tokenizer bytes").exit_code, 0);
}

}  // namespace
}  // namespace sluice::testing
