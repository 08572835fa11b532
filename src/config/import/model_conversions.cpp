#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/text.h"
#include "config/import/config_import.h"
#include "config/import/conversions.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

constexpr const char* kTargetKey = "lora.target";
constexpr const char* kModelType = "model.dtype";

// True for an id of the Hugging Face Hub, such as "Qwen/Qwen3-8B" or "gpt2".
bool is_hub_id(const std::string& text) {
  static const std::string kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/";
  return !text.empty() && text.find_first_not_of(kLetters) == std::string::npos && text[0] != '.' &&
         text[0] != '/' && std::count(text.begin(), text.end(), '/') <= 1 && text.back() != '/';
}

void set_directory(ConfigImport& import, const char* key, const Json& value) {
  if (!value.is_string()) return import.leave_out("not a path");
  const std::string& path = value.text();
  std::error_code failed;
  if (std::filesystem::exists(path, failed) || !is_hub_id(path)) {
    import.set(key, Json(import.relocated(path)));
    return;
  }
  const std::string folder = "models/" + std::filesystem::path(path).filename().string();
  import.prepare("hf download " + path + " --local-dir " + folder);
  import.set(key, Json(import.relocated(folder)));
}

bool has_lora(const ConfigImport& import) {
  const Trainer& trainer = import.trainer();
  if (trainer.is("axolotl")) return import.is_on("adapter");
  if (trainer.is("llama-factory")) return import.text_of("finetuning_type") == "lora";
  if (trainer.is("torchtune"))
    return import.text_of("model._component_").find(".lora_") != std::string::npos ||
           import.text_of("model._component_").find(".qlora_") != std::string::npos;
  return import.is_on("use_peft") || !import.source("r").is_null() ||
         !import.source("peft_type").is_null();
}

void add_targets(ConfigImport& import, const std::vector<std::string>& names) {
  Json::List targets;
  if (const Json* earlier = import.value_of(kTargetKey)) {
    if (!earlier->is_array()) return;  // "all-linear"
    targets = earlier->list();
  }
  for (const std::string& name : names) {
    const Json pattern(name == "lm_head" ? name : "*." + name);
    if (std::find(targets.begin(), targets.end(), pattern) == targets.end())
      targets.push_back(pattern);
  }
  import.set(kTargetKey, Json(targets));
}

void set_type(ConfigImport& import, const char* type) {
  const bool is_autocast = import.trainer().is("trl") && import.source("torch_dtype").is_null() &&
                           import.source("dtype").is_null();
  if (is_autocast && type == std::string("bfloat16"))
    import.set("training.mixed_precision", Json(type));
  else
    import.set(kModelType, Json(type));
}

}  // namespace

void import_model(ConfigImport& import, const Json& value) {
  set_directory(import, "model.path", value);
}

void import_adapter_directory(ConfigImport& import, const Json& value) {
  set_directory(import, "model.adapter", value);
}

void import_precision(ConfigImport& import, const Json& value) {
  if (is_true(value)) {
    set_type(import, "bfloat16");
  } else {
    import.skip();
  }
}

void import_type(ConfigImport& import, const Json& value) {
  const std::string word = value.is_string() ? value.text() : "";
  const std::string type = word.starts_with("torch.") ? word.substr(6) : word;
  if (type == "bf16" || type == "bfloat16") return set_type(import, "bfloat16");
  if (type == "fp32" || type == "float32") return set_type(import, "float32");
  import.leave_out(type == "auto" ? "set model.dtype to the type of the weights"
                                  : "sluice trains in float32 or bfloat16 (model.dtype)");
}

void import_recompute(ConfigImport& import, const Json& value) {
  import.set("training.activation_checkpoint", Json(is_true(value) ? "full" : "none"));
}

void import_no_recompute(ConfigImport& import, const Json& value) {
  import_recompute(import, Json(!is_true(value)));
}

void import_lora(ConfigImport& import, const Json& value) {
  const std::string word = value.is_string() ? value.text() : "";
  if (word == "lora" || word == "LORA" || word == "full" || value.is_boolean())
    return import.read_along();
  if (word == "qlora")
    import.leave_out("the base is not quantized; an ordinary adapter trains");
  else if (word == "freeze")
    import.leave_out("sluice freezes layers by name; set training.trainable");
  else if (!word.empty())
    refuse_objective(import, value);
  else
    import.leave_out("not the name of a method");
}

void import_stage(ConfigImport& import, const Json& value) {
  value == Json("sft") || value == Json("pt") ? import.read_along()
                                              : refuse_objective(import, value);
}

void import_loss(ConfigImport& import, const Json& value) {
  const std::string component = value.is_string() ? value.text() : "";
  const bool is_cross_entropy = component.find("CrossEntropy") != std::string::npos ||
                                component.find("CEWithChunked") != std::string::npos;
  is_cross_entropy ? import.leave_out() : refuse_objective(import, value);
}

void import_lora_targets(ConfigImport& import, const Json& value) {
  if (value == Json("all-linear") || value == Json("all"))
    return import_all_linear(import, Json(true));
  std::vector<std::string> names;
  if (value.is_string()) {
    for (const std::string& name : split(value.text(), ',')) names.emplace_back(trim(name));
  } else if (value.is_array()) {
    for (const Json& name : value.list())
      if (name.is_string()) names.push_back(name.text());
  }
  const bool is_expression = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.find_first_of("[]()\\|^$*+?") != std::string::npos;
  });
  if (is_expression || names.empty()) {
    import.leave_out("lora.target takes names with '*', not regular expressions; set it by hand");
  } else if (import.trainer().is("torchtune")) {
    for (std::string& name : names)
      if (name == "output_proj") name = "o_proj";
    if (import.is_on("model.apply_lora_to_mlp"))
      for (const char* name : {"gate_proj", "up_proj", "down_proj"}) names.emplace_back(name);
    if (import.is_on("model.apply_lora_to_output")) names.emplace_back("lm_head");
    add_targets(import, names);
  } else {
    add_targets(import, names);
  }
}

void import_all_linear(ConfigImport& import, const Json& value) {
  if (!is_true(value)) return import.skip();
  import.set(kTargetKey, Json("all-linear"));
}

void import_modules_to_save(ConfigImport& import, const Json& value) {
  if (value.empty()) return import.skip();
  if (ConfigImport::has_key("lora.modules_to_save")) {
    import.set("lora.modules_to_save", value);
  } else {
    import.leave_out("only the adapter trains");
  }
}

// Regular expressions of parameter names, such as '^lm_head.weight$'.
void import_trainable(ConfigImport& import, const Json& value) {
  Json::List patterns;
  for (const Json& each : value.is_array() ? value.list() : Json::List{value}) {
    std::string name = each.is_string() ? each.text() : "";
    const bool has_end = name.ends_with('$');
    if (has_end) name.pop_back();
    if (name.starts_with('^')) name.erase(0, 1);
    name = replace_all(replace_all(name, ".*", "*"), "\\.", ".");
    if (name.empty() || name.find_first_of("[](){}\\|^$+?") != std::string::npos)
      return import.leave_out(
          "training.trainable takes names with '*', not regular expressions; set it by hand");
    patterns.push_back(Json(has_end || name.ends_with('*') ? name : name + "*"));
  }
  import.set("training.trainable", Json(patterns));
}

void import_component(ConfigImport& import, const Json& value) {
  const std::string component = value.is_string() ? value.text() : "";
  if (component.find("vision") != std::string::npos || component.find("dora") != std::string::npos)
    return refuse_objective(import, value);
  import.leave_out(component.find("qlora") == std::string::npos
                       ? "config.json of the model names its family"
                       : "the base is not quantized; config.json names the family");
}

void refuse_objective(ConfigImport& import, const Json& value) {
  if (!is_true(value)) return import.skip();
  throw Error(ErrorKind::kUsage,
              {.what = import.name() + " = " + value.shown() + " trains what sluice cannot train",
               .remedy = "sluice trains causal language models on tokens (docs/limits.md); remove "
                         "the key to import the rest"});
}

void leave_switch_out(ConfigImport& import, const Json& value) {
  is_true(value) ? import.leave_out() : import.skip();
}

void import_nothing(ConfigImport& import, const Json&) { import.read_along(); }

void leave_key_out(ConfigImport& import, const Json&) { import.leave_out(); }

void finish_model(ConfigImport& import) {
  if (!import.value_of("model.path"))
    import.prepare("set model.path to the model's Hugging Face directory");
  const char* reason = !has_lora(import) ? "no adapter is trained"
                       : import.value_of("model.adapter")
                           ? "model.adapter's adapter_config.json decides"
                           : nullptr;
  static const char* const kLoraKeys[] = {"lora.rank", "lora.alpha", "lora.dropout", "lora.target",
                                          "lora.modules_to_save"};
  if (reason) {
    for (const char* key : kLoraKeys) import.unset(key, reason);
    return;
  }
  import.unset("training.trainable", "only the adapter trains");
  const std::string from = std::string(import.trainer().name) + "'s default";
  if (!import.value_of("lora.rank")) import.set_own("lora.rank", Json(16), from);
  if (const Json* rank = import.value_of("lora.rank"); !import.value_of("lora.alpha"))
    import.set_own("lora.alpha", Json(2 * rank->number()), from);
}

}  // namespace sluice::detail
