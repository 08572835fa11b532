// Conversions of other trainers' keys, for the rows of peer_keys(). Each sets keys of sluice or
// says why it does not.
#pragma once

namespace sluice {
class Json;
}

namespace sluice::detail {

class ConfigImport;
using Conversion = void (*)(ConfigImport& import, const Json& value);

// model_conversions.cpp
void import_model(ConfigImport& import, const Json& value);
void import_adapter_directory(ConfigImport& import, const Json& value);
void import_precision(ConfigImport& import, const Json& value);  // a flag, such as bf16
void import_type(ConfigImport& import, const Json& value);       // a name, such as "bfloat16"
void import_recompute(ConfigImport& import, const Json& value);
void import_no_recompute(ConfigImport& import, const Json& value);
void import_lora(ConfigImport& import, const Json& value);   // switches LoRA on or off
void import_stage(ConfigImport& import, const Json& value);  // of LLaMA-Factory
void import_loss(ConfigImport& import, const Json& value);   // of torchtune
void import_lora_targets(ConfigImport& import, const Json& value);
void import_all_linear(ConfigImport& import, const Json& value);
void import_modules_to_save(ConfigImport& import, const Json& value);
void import_trainable(ConfigImport& import, const Json& value);
void import_component(ConfigImport& import, const Json& value);  // torchtune's model._component_

// data_conversions.cpp
void import_datasets(ConfigImport& import, const Json& value);
void import_validation_data(ConfigImport& import, const Json& value);
void import_dataset_name(ConfigImport& import, const Json& value);
void import_validation_share(ConfigImport& import, const Json& value);
void import_train_on_inputs(ConfigImport& import, const Json& value);
void import_tune_data(ConfigImport& import, const Json& value);  // torchtune's dataset._component_
void import_group(ConfigImport& import, const Json& value);      // group_by_length
void import_history(ConfigImport& import, const Json& value);
void import_padding(ConfigImport& import, const Json& value);
void import_chat_template(ConfigImport& import, const Json& value);

// run_conversions.cpp
void import_epochs(ConfigImport& import, const Json& value);
void import_steps(ConfigImport& import, const Json& value);
void import_warmup_ratio(ConfigImport& import, const Json& value);
void import_warmup_steps(ConfigImport& import, const Json& value);
void import_optimizer(ConfigImport& import, const Json& value);
void import_beta(ConfigImport& import, const Json& value);
void import_scheduler(ConfigImport& import, const Json& value);
void import_folders(ConfigImport& import, const Json& value);
void import_overwrite(ConfigImport& import, const Json& value);
void import_resume(ConfigImport& import, const Json& value);
void import_interval(ConfigImport& import, const Json& value);
void import_reports(ConfigImport& import, const Json& value);
void import_device(ConfigImport& import, const Json& value);

// Refuses the file, because it trains what sluice cannot train.
void refuse_objective(ConfigImport& import, const Json& value);
// Leaves a switch out silently if it is off.
void leave_switch_out(ConfigImport& import, const Json& value);
// For a key that the conversion of another key reads.
void import_nothing(ConfigImport& import, const Json& value);
// Leaves the key out for the reason in its row.
void leave_key_out(ConfigImport& import, const Json& value);

// Sets what depends on several keys.
void finish_model(ConfigImport& import);
void finish_data(ConfigImport& import);
void finish_run(ConfigImport& import);

}  // namespace sluice::detail
