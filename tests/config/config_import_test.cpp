#include "config/import/config_import.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/text.h"
#include "config/key_table.h"
#include "config/toml_reader.h"
#include "support/expect_error.h"
#include "support/mutate.h"
#include "support/temp_directory.h"

namespace sluice::detail {
namespace {

constexpr const char* kAxolotl = R"(base_model: some-lab/Tiny-1B
load_in_4bit: true
adapter: qlora
chat_template: llama3
datasets:
  - path: some-lab/questions
    type: alpaca
    split: train[:10%]
  - path: chats.jsonl
    type: chat_template
    field_messages: conversations
    message_property_mappings: {role: from, content: value}
    roles: {assistant: [bot]}
sequence_len: 2048
sample_packing: true
lora_r: 16
lora_alpha: 32
lora_dropout: 0.05
lora_target_modules: [q_proj, self_attn.v_proj]
wandb_project:
gradient_accumulation_steps: 4
micro_batch_size: 2
max_steps: 200
optimizer: adamw_torch_fused
lr_scheduler: cosine
learning_rate: 2e-4
bf16: auto
tf32: false
gradient_checkpointing: true
gradient_checkpointing_kwargs: {use_reentrant: false}
attn_implementation: flash_attention_2
warmup_steps: 10
eval_steps: 50
save_steps: 100
weight_decay: 0.01
special_tokens: {pad_token: "<pad>"}
output_dir: ./out
not_a_key_of_anything: 7
)";

constexpr const char* kFactory = R"(model_name_or_path: ./base
stage: sft
finetuning_type: lora
lora_target: all
dataset: identity, questions
template: qwen3
cutoff_len: 1024
overwrite_cache: true
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
learning_rate: 1.0e-4
num_train_epochs: 3.0
max_steps: 60
warmup_ratio: 0.1
lr_scheduler_type: cosine
bf16: true
report_to: none
ddp_timeout: 180000000
)";

constexpr const char* kTune = R"(output_dir: /tmp/run
model:
  _component_: torchtune.models.llama3_2.lora_llama3_2_1b
  lora_attn_modules: [q_proj, output_proj]
  apply_lora_to_mlp: true
  lora_rank: 8
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  path: /tmp/base/tokenizer.model
  max_seq_len: null
checkpointer:
  _component_: torchtune.training.FullModelHFCheckpointer
  checkpoint_dir: /tmp/base/
  output_dir: ${output_dir}
dataset:
  _component_: torchtune.datasets.alpaca_cleaned_dataset
  packed: true
seed: null
shuffle: true
batch_size: 2
epochs: 1
optimizer:
  _component_: torch.optim.AdamW
  fused: true
  lr: 3e-4
lr_scheduler:
  _component_: torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup
  num_warmup_steps: 100
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
gradient_accumulation_steps: 8
clip_grad_norm: null
dtype: bf16
metric_logger:
  log_dir: ${output_dir}/logs
)";

constexpr const char* kArguments =
    "accelerate launch --num_processes 2 sft.py --model_name_or_path base --dataset_name "
    "rows.jsonl "
    "\\\n --learning_rate 1e-4 --bf16 --use_peft --lora_target_modules q_proj v_proj "
    "--max_steps 30 --packing --wumbo 3\n";

constexpr const char* kJson =
    R"({"model_name_or_path": "base", "learning_rate": 1e-05, "max_steps": 99999999999999999999,
        "optim": "adafactor", "lr_scheduler_type": "polynomial", "fp16": true, "seed": null})";

class ConfigImportTest : public ::testing::Test {
 protected:
  ImportedConfig import(const std::string& text, const std::string& name,
                        const std::string& from = "") {
    test::write_file(folder_ / name, text);
    return import_config(folder_ / name, from, "");
  }
  static std::map<std::string, std::string> keys_of(const std::string& toml) {
    std::map<std::string, std::string> keys;
    for (const RawKey& raw : read_toml(toml, "out.toml")) {
      Value value;
      const RawValue* misfit = nullptr;
      for (const Key& key : key_table())
        if (key.full_name() == raw.section + "." + raw.name &&
            convert(raw.value, key.kinds, value, misfit))
          keys[key.full_name()] = to_toml(value);
      EXPECT_TRUE(keys.contains(raw.section + "." + raw.name)) << raw.section << "." << raw.name;
    }
    return keys;
  }
  static std::string note_about(const ImportedConfig& imported, const std::string& key) {
    for (const std::string& note : imported.notes)
      if (note.find(" " + key) != std::string::npos) return note;
    return "";
  }
  test::TempDirectory folder_;
};

TEST_F(ConfigImportTest, TranslatesAxolotl) {
  const ImportedConfig imported = import(kAxolotl, "a.yml");
  const auto keys = keys_of(imported.toml);
  const std::map<std::string, std::string> expected = {
      {"model.path", "\"models/Tiny-1B\""},
      {"model.dtype", "\"bfloat16\""},
      {"lora.rank", "16"},
      {"lora.alpha", "32"},
      {"lora.dropout", "0.05"},
      {"lora.target", "[\"*.q_proj\", \"*.self_attn.v_proj\"]"},
      {"data.files", "[\"data/questions.jsonl\", \"chats.jsonl\"]"},
      {"data.chat_template", "\"llama3\""},
      {"data.assistant_only_loss", "true"},
      {"data.pack", "true"},
      {"training.seq_len", "2048"},
      {"training.steps", "200"},
      {"training.microbatch_size", "2"},
      {"training.local_batch_size", "8"},
      {"training.activation_checkpoint", "\"full\""},
      {"training.seed", "42"},
      {"optimizer.lr", "2e-04"},
      {"optimizer.betas", "[0.9, 0.999]"},
      {"optimizer.weight_decay", "0.01"},
      {"lr_scheduler.decay", "\"cosine\""},
      {"lr_scheduler.warmup_steps", "10"},
      {"parallelism.pipeline_parallel_degree", "1"},
      {"checkpoint.interval", "100"},
      {"checkpoint.folder", "\"./out/checkpoint\""}};
  for (const auto& [key, value] : expected) {
    ASSERT_TRUE(keys.contains(key)) << key << "\n" << imported.toml;
    EXPECT_EQ(keys.at(key), value) << key;
  }
  EXPECT_EQ(note_about(imported, "load_in_4bit"),
            "left out: line 2: load_in_4bit = true: weights are not quantized");
  EXPECT_EQ(note_about(imported, "eval_steps"),
            "left out: line 33: eval_steps = 50: no validation rows");
  EXPECT_EQ(
      note_about(imported, "not_a_key_of_anything"),
      "left out: line 38: not_a_key_of_anything = 7: sluice does not know this key of axolotl");
  EXPECT_EQ(note_about(imported, "datasets[1].roles"),
            "left out: line 5: datasets[1].roles: rows are read as docs/data.md describes");
  EXPECT_EQ(note_about(imported, "hf download"),
            "run first: hf download some-lab/Tiny-1B --local-dir models/Tiny-1B");
  EXPECT_NE(note_about(imported, "load_dataset").find("split=\"train[:10%]\""), std::string::npos);
}

TEST_F(ConfigImportTest, RenamesFields) {
  const ImportedConfig imported = import(
      "base_model: ./m\ntrain_on_inputs: true\ndatasets:\n"
      "  - path: rows.jsonl\n    type: chat_template\n    field_messages: talk\n"
      "    message_property_mappings: {role: who, content: says, weight: w}\n",
      "a.yml");
  const auto keys = keys_of(imported.toml);
  EXPECT_EQ(keys.at("data.fields"), "{ content = \"says\", messages = \"talk\", role = \"who\" }");
  EXPECT_EQ(keys.at("data.train_on"), "\"all\"");
  EXPECT_NE(note_about(imported, "datasets[0].message_property_mappings.weight"), "");
}

TEST_F(ConfigImportTest, TranslatesLlamaFactory) {
  const ImportedConfig imported = import(kFactory, "a.yaml");
  const auto keys = keys_of(imported.toml);
  EXPECT_EQ(keys.at("model.path"), "\"./base\"");
  EXPECT_EQ(keys.at("lora.target"), "\"all-linear\"");
  EXPECT_EQ(keys.at("lora.rank"), "8");
  EXPECT_EQ(keys.at("lora.alpha"), "16");
  EXPECT_EQ(keys.at("data.files"), "[\"data/identity.json\", \"data/questions.json\"]");
  EXPECT_EQ(keys.at("data.assistant_only_loss"), "true");
  EXPECT_EQ(keys.at("training.local_batch_size"), "8");
  EXPECT_EQ(keys.at("training.activation_checkpoint"), "\"full\"");
  EXPECT_NE(note_about(imported, "ddp_timeout"), "");
  EXPECT_EQ(note_about(imported, "num_train_epochs"),
            "left out: line 12: num_train_epochs = 3.0: max_steps decides");
}

TEST_F(ConfigImportTest, TranslatesTorchtune) {
  const ImportedConfig imported = import(kTune, "a.yaml");
  const auto keys = keys_of(imported.toml);
  EXPECT_EQ(keys.at("model.path"), "\"/tmp/base/\"");
  EXPECT_EQ(keys.at("lora.target"),
            "[\"*.q_proj\", \"*.o_proj\", \"*.gate_proj\", \"*.up_proj\", \"*.down_proj\"]");
  EXPECT_EQ(keys.at("data.files"), "[\"data/alpaca-cleaned.jsonl\"]");
  EXPECT_EQ(keys.at("optimizer.lr"), "3e-04");
  EXPECT_EQ(keys.at("optimizer.weight_decay"), "0.01");
  EXPECT_EQ(keys.at("optimizer.max_norm"), "0");
  EXPECT_EQ(keys.at("lr_scheduler.decay"), "\"cosine\"");
  EXPECT_EQ(keys.at("lr_scheduler.warmup_steps"), "100");
  EXPECT_EQ(keys.at("training.local_batch_size"), "16");
  EXPECT_EQ(keys.at("metrics.folder"), "\"/tmp/run\"");
  EXPECT_NE(note_about(imported, "metric_logger.log_dir").find("\"/tmp/run/logs\""),
            std::string::npos);
}

TEST_F(ConfigImportTest, TranslatesArguments) {
  const ImportedConfig imported = import(kArguments, "run.sh");
  const auto keys = keys_of(imported.toml);
  EXPECT_EQ(keys.at("model.path"), "\"models/base\"");
  EXPECT_EQ(keys.at("data.files"), "[\"rows.jsonl\"]");
  EXPECT_EQ(keys.at("lora.target"), "[\"*.q_proj\", \"*.v_proj\"]");
  EXPECT_EQ(keys.at("training.mixed_precision"), "\"bfloat16\"");
  EXPECT_EQ(keys.at("training.local_batch_size"), "8");
  EXPECT_EQ(keys.at("lr_scheduler.decay"), "\"linear\"");
  EXPECT_NE(note_about(imported, "launcher"), "");
  EXPECT_NE(note_about(imported, "wumbo"), "");
  const ImportedConfig piped = import(
      "sft.py --model_name_or_path base --output_dir out 2>&1 | tee log && echo done", "b.sh");
  EXPECT_EQ(keys_of(piped.toml).at("metrics.folder"), "\"out\"");
  EXPECT_NE(note_about(piped, "arguments").find("tee"), std::string::npos);
  const ImportedConfig json = import(kJson, "a.json");
  EXPECT_EQ(keys_of(json.toml).at("optimizer.lr"), "1e-05");
  for (const char* key : {"max_steps", "optim", "lr_scheduler_type", "fp16"})
    EXPECT_TRUE(note_about(json, key).starts_with("left out: ")) << key;
}

// Epochs, ratios and splits are used as soon as the key table has keys for them.
TEST_F(ConfigImportTest, UsesKeysThatExist) {
  const std::string text =
      "base_model: ./m\nnum_epochs: 3\nwarmup_ratio: 0.1\nval_set_size: 0.05\n";
  const ImportedConfig imported = import(text, "a.yml");
  const auto keys = keys_of(imported.toml);
  for (const auto& [theirs, ours] : {std::pair("num_epochs", "training.epochs"),
                                     std::pair("warmup_ratio", "lr_scheduler.warmup_ratio"),
                                     std::pair("val_set_size", "validation.split")}) {
    EXPECT_EQ(keys.contains(ours), ConfigImport::has_key(ours)) << ours;
    EXPECT_EQ(note_about(imported, theirs).empty(), ConfigImport::has_key(ours)) << theirs;
  }
}

TEST_F(ConfigImportTest, NamesEveryKeyOfTheFile) {
  for (const auto& [text, name] :
       {std::pair(kAxolotl, "a.yml"), std::pair(kFactory, "b.yml"), std::pair(kTune, "c.yml")}) {
    const ImportedConfig imported = import(text, name);
    std::string key;
    for (const std::string& line : split(text, '\n')) {
      const std::size_t colon = line.find(':');
      if (line.empty() || line[0] == ' ' || colon == std::string::npos) continue;
      EXPECT_NE(imported.toml.find(line.substr(0, colon)), std::string::npos) << line;
    }
  }
}

TEST_F(ConfigImportTest, NamesTheCommandThatReplacesAKey) {
  const ImportedConfig imported =
      import("model: {_component_: m}\nprofiler: {_component_: p}\n", "a.yml", "torchtune");
  EXPECT_NE(note_about(imported, "profiler").find(": see sluice train --profile"),
            std::string::npos)
      << note_about(imported, "profiler");
}

TEST_F(ConfigImportTest, RefusesOtherObjectivesAndOtherFiles) {
  const auto message = [&](const std::string& text, const std::string& name,
                           const std::string& from = "") {
    return replace_all(test::message_of([&] { import(text, name, from); }), folder_ / "", "");
  };
  EXPECT_EQ(message("base_model: m\nrl: dpo\n", "a.yml"),
            "rl = \"dpo\" trains what sluice cannot train; a.yml; sluice trains causal language "
            "models on tokens (docs/limits.md); remove the key to import the rest");
  EXPECT_NE(message("stage: rm\nmodel_name_or_path: m\n", "a.yml").find("stage = \"rm\""),
            std::string::npos);
  EXPECT_NE(message("a: 1\n", "a.yml").find("name the trainer with --from"), std::string::npos);
  EXPECT_EQ(message("a: 1\n", "a.yml", "axolotel"),
            "unknown trainer 'axolotel'; --from; did you mean 'axolotl'?");
  EXPECT_NE(message("- 1\n", "a.yml").find("the file has no settings"), std::string::npos);
  EXPECT_NE(message("", "a.yml").find("the file has no settings"), std::string::npos);
  EXPECT_NE(message("output_dir: ${a}\na: ${output_dir}\nm: {_component_: b}\n", "a.yml")
                .find("form a circle"),
            std::string::npos);
  std::string empty = "output_dir: x\nm: {_component_: b}\n";
  for (const char* pair : {"ab", "bc", "cd", "de", "ef"}) {
    empty += std::string(1, pair[0]) + ": \"";
    for (int i = 0; i < 100; ++i) empty += "${" + std::string(1, pair[1]) + "}";
    empty += "\"\n";
  }
  EXPECT_NE(message(empty + "f: ''\n", "a.yml").find("the references are too long"),
            std::string::npos);
}

TEST_F(ConfigImportTest, PathsStartAtTheFolderOfTheResult) {
  test::write_file(folder_ / "a.yml", "base_model: ./m\ndatasets: [{path: rows.jsonl}]\n");
  const ImportedConfig imported = import_config(
      folder_ / "a.yml", "", (std::filesystem::current_path() / "x/y/o.toml").string());
  EXPECT_EQ(keys_of(imported.toml).at("model.path"), "\"../../m\"");
  EXPECT_EQ(keys_of(imported.toml).at("data.files"), "[\"../../rows.jsonl\"]");
}

TEST_F(ConfigImportTest, WritesValidTomlOrOneErrorForAnyBytes) {
  const std::vector<std::string> texts = {kAxolotl, kFactory, kTune, kArguments, kJson};
  std::mt19937 random(1);
  int written = 0;
  for (int i = 0; i < 400; ++i) {
    const std::size_t which = i % texts.size();
    const std::string name = which < 3 ? "a.yml" : which == 3 ? "a.txt" : "a.json";
    const std::string text = test::mutate(texts[which], texts, random);
    try {
      const ImportedConfig imported = import(text, name);
      keys_of(imported.toml);
      ++written;
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::kUsage || error.kind() == ErrorKind::kInput)
          << error.what() << "\n"
          << text;
    }
  }
  EXPECT_GT(written, 100);
}

}  // namespace
}  // namespace sluice::detail
