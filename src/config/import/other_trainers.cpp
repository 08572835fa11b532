#include "config/import/other_trainers.h"

#include <algorithm>

#include "base/nearest_name.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

// The defaults are those of the trainers' releases of 2026.
std::vector<Trainer> make_trainers() {
  return {
      {.option = "axolotl",
       .name = "axolotl",
       .libraries = {"axolotl", "PEFT", "Hugging Face", "TRL"},
       .defaults = {{"sequence_len", 512},
                    {"micro_batch_size", 1},
                    {"num_epochs", 1},
                    {"learning_rate", 5e-5},
                    {"adam_beta2", 0.999},
                    {"weight_decay", 0.0},
                    {"lr_scheduler", "cosine"},
                    {"train_on_inputs", false},
                    {"pad_to_sequence_len", false},
                    {"seed", 42}}},
      {.option = "llama-factory",
       .name = "LLaMA-Factory",
       .libraries = {"LLaMA-Factory", "PEFT", "Hugging Face", "TRL"},
       .defaults = {{"cutoff_len", 2048},
                    {"finetuning_type", "lora"},
                    {"lora_rank", 8},
                    {"lora_target", "all"},
                    {"per_device_train_batch_size", 8},
                    {"num_train_epochs", 3},
                    {"learning_rate", 5e-5},
                    {"adam_beta2", 0.999},
                    {"weight_decay", 0.0},
                    {"lr_scheduler_type", "linear"},
                    {"train_on_prompt", false},
                    {"disable_gradient_checkpointing", false},
                    {"seed", 42}}},
      {.option = "torchtune",
       .name = "torchtune",
       .libraries = {"torchtune", "Hugging Face", "PEFT", "torchtitan"},
       .defaults = {{"epochs", 1},
                    {"tokenizer.max_seq_len", 2048},
                    {"optimizer.betas", Json::List{0.9, 0.999}},
                    {"optimizer.weight_decay", 0.01},
                    {"clip_grad_norm", 0.0}}},
      {.option = "trl",
       .name = "TRL",
       .libraries = {"TRL", "PEFT", "Hugging Face"},
       .defaults = {{"max_length", 1024},
                    {"per_device_train_batch_size", 8},
                    {"num_train_epochs", 3},
                    {"learning_rate", 2e-5},
                    {"adam_beta2", 0.999},
                    {"weight_decay", 0.0},
                    {"lr_scheduler_type", "linear"},
                    {"gradient_checkpointing", true},
                    {"seed", 42}}},
  };
}

bool has_component(const Json& value) {
  if (!value.is_object()) return false;
  return value.contains("_component_") ||
         std::any_of(value.members().begin(), value.members().end(),
                     [](const Json::Member& member) { return has_component(member.value); });
}

bool has_any(const Json& settings, const std::vector<const char*>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return settings.contains(name); });
}

std::string option_of(const Json& settings) {
  if (has_component(settings)) return "torchtune";
  if (has_any(settings, {"base_model", "micro_batch_size", "sequence_len"})) return "axolotl";
  if (has_any(settings, {"stage", "finetuning_type", "cutoff_len", "template", "dataset_dir"}))
    return "llama-factory";
  if (has_any(settings, {"model_name_or_path", "output_dir", "per_device_train_batch_size",
                         "learning_rate", "num_train_epochs", "lora_alpha", "r"}))
    return "trl";
  return "";
}

}  // namespace

const std::vector<Trainer>& trainers() {
  static const std::vector<Trainer> table = make_trainers();
  return table;
}

const Trainer& trainer_of(const Json& settings, const std::string& option,
                          const std::string& file) {
  const std::string word = option.empty() ? option_of(settings) : option;
  std::vector<std::string> options;
  for (const Trainer& trainer : trainers()) {
    if (word == trainer.option) return trainer;
    options.push_back(trainer.option);
  }
  if (!option.empty())
    throw Error(ErrorKind::kUsage, {.what = "unknown trainer '" + option + "'",
                                    .where = "--from",
                                    .remedy = suggest_name(option, options)});
  throw Error(ErrorKind::kUsage,
              {.what = "the keys are not those of axolotl, LLaMA-Factory, torchtune or TRL",
               .where = file,
               .remedy = "name the trainer with --from, one of: " + join(options, ", ")});
}

}  // namespace sluice::detail
