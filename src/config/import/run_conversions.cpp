#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/text.h"
#include "config/import/config_import.h"
#include "config/import/conversions.h"

namespace sluice::detail {
namespace {

constexpr const char* kEpochsKey = "training.epochs";
constexpr const char* kStepsKey = "training.steps";
constexpr const char* kRatioKey = "lr_scheduler.warmup_ratio";
constexpr const char* kWarmupKey = "lr_scheduler.warmup_steps";

double number_of(const Json& value) { return value.is_number() ? value.number() : 0; }

// Sets a key of steps from a share of the run.
void set_share(ConfigImport& import, const char* key, double share) {
  double steps = number_of(import.source("max_steps"));
  if (steps <= 0) return import.leave_out(std::string("set ") + key + " in steps");
  import.set(key, Json(static_cast<std::int64_t>(std::ceil(share * std::min(steps, 1e15)))));
}

void set_in_epochs(ConfigImport& import, const char* key, double epochs) {
  if (ConfigImport::takes_text(key))
    import.set(key, Json(shortest(epochs) + (epochs == 1 ? " epoch" : " epochs")));
  else
    import.leave_out(std::string("set ") + key + " in steps");
}

bool is_of_validation(const ConfigImport& import) {
  return import.name().find("eval") != std::string::npos ||
         import.name().find("val_") != std::string::npos;
}

}  // namespace

void import_epochs(ConfigImport& import, const Json& value) {
  const bool has_steps = number_of(import.source("max_steps")) > 0;
  if (has_steps)
    import.leave_out("max_steps decides");
  else if (ConfigImport::has_key(kEpochsKey))
    import.set(kEpochsKey, value);
  else
    import.leave_out("set training.steps; an epoch is rows / training.local_batch_size steps");
}

void import_steps(ConfigImport& import, const Json& value) {
  number_of(value) > 0 ? static_cast<void>(import.set(kStepsKey, value)) : import.skip();
}

void import_warmup_ratio(ConfigImport& import, const Json& value) {
  if (number_of(value) == 0 && value.is_number()) return import.skip();
  if (number_of(import.source("warmup_steps")) > 0) return import.leave_out("warmup_steps decides");
  if (ConfigImport::has_key(kRatioKey))
    import.set(kRatioKey, value);
  else
    set_share(import, kWarmupKey, number_of(value));
}

void import_warmup_steps(ConfigImport& import, const Json& value) {
  const double number = number_of(value);
  if (number > 0 && number < 1) {  // a share of the run in current releases
    ConfigImport::has_key(kRatioKey) ? static_cast<void>(import.set(kRatioKey, value))
                                     : set_share(import, kWarmupKey, number);
  } else if (number == 0 && value.is_number()) {
    import.skip();
  } else {
    import.set(kWarmupKey, value);
  }
}

void import_optimizer(ConfigImport& import, const Json& value) {
  std::string word = to_lower(value.is_string() ? value.text() : "");
  word = word.substr(word.rfind('.') + 1);
  const bool is_adam =
      word.find("adamw") != std::string::npos || word.find("pagedadam") != std::string::npos;
  if (word == "sgd") {
    import.set("optimizer.name", Json("SGD"));
  } else if (is_adam && word.find("schedule_free") == std::string::npos) {
    import.set("optimizer.name", Json("AdamW"));
    if (word.find("4bit") != std::string::npos) {
      import.leave_out("AdamW's state is not kept in 4 bits");
    } else if (word.find("8bit") != std::string::npos) {
      if (ConfigImport::has_key("optimizer.state"))
        import.set("optimizer.state", Json("int8"));
      else
        import.leave_out("AdamW's state is not kept in 8 bits");
    }
  } else {
    import.leave_out("sluice has AdamW and SGD; AdamW is used");
  }
}

void import_beta(ConfigImport& import, const Json&) {
  const Json& first = import.source("adam_beta1");
  const Json& second = import.source("adam_beta2");
  import.set("optimizer.betas", Json::List{first.is_null() ? Json(0.9) : first,
                                           second.is_null() ? Json(0.999) : second});
}

void import_scheduler(ConfigImport& import, const Json& value) {
  const std::string word = to_lower(value.is_string() ? value.text() : "");
  const char* const decay = word == "cosine" || word == "cosine_with_min_lr" ||
                                    word.find("get_cosine_schedule") != std::string::npos
                                ? "cosine"
                            : word == "linear"                                     ? "linear"
                            : word == "constant" || word == "constant_with_warmup" ? "constant"
                                                                                   : nullptr;
  if (decay)
    import.set("lr_scheduler.decay", Json(decay));
  else
    import.leave_out("sluice decays constant, linear or cosine; the rate stays constant");
}

void import_folders(ConfigImport& import, const Json& value) {
  if (!value.is_string()) return import.leave_out("not a path");
  const std::string folder = import.relocated(value.text());
  import.set("checkpoint.folder", Json(folder + (folder.ends_with('/') ? "" : "/") + "checkpoint"));
  import.set("metrics.folder", Json(folder));
}

void import_overwrite(ConfigImport& import, const Json& value) {
  if (!is_true(value)) return import.skip();
  import.set("checkpoint.resume", Json("none"));
}

void import_resume(ConfigImport& import, const Json& value) {
  if (value.is_string() && is_true(value))
    import.leave_out("another trainer's checkpoint does not resume here; set model.path to it");
  else
    import.skip();
}

void import_interval(ConfigImport& import, const Json& value) {
  const char* const key = is_of_validation(import) ? "validation.interval" : "checkpoint.interval";
  const double number = number_of(value);
  if (value.is_string()) {  // a strategy: steps, epoch, no
    if (to_lower(value.text()) == "epoch") return set_in_epochs(import, key, 1);
    if (value == Json("steps")) return import.read_along();
    return is_true(value) ? import.leave_out(std::string("set ") + key + " in steps")
                          : import.skip();
  }
  if (number <= 0) return import.skip();
  if (import.name().find("per_epoch") != std::string::npos)
    return set_in_epochs(import, key, 1 / number);
  if (number < 1) return set_share(import, key, number);
  import.set(key, value);
}

void import_reports(ConfigImport& import, const Json& value) {
  const std::string words = to_lower(value.is_string() ? value.text() : value.shown());
  if (words.find("tensorboard") != std::string::npos || value == Json(true))
    import.set("metrics.enable_tensorboard", Json(true));
  else if (!is_true(value) || words == "[]" || words == "[\"none\"]")
    import.skip();
  else
    import.leave_out("metrics go to metrics.jsonl, report.html and TensorBoard");
}

void import_device(ConfigImport& import, const Json& value) {
  const bool is_cpu = value == Json("cpu") || (value.is_boolean() && value.boolean());
  if (is_cpu)
    import.set("training.device", Json("cpu"));
  else
    import.skip();
}

void finish_run(ConfigImport& import) {
  const Json* rows = import.value_of("training.microbatch_size");
  const double microbatch = rows ? number_of(*rows) : 1;
  const Json& given = import.source("gradient_accumulation_steps");
  const double accumulation = given.is_number() && given.number() >= 1 ? given.number() : 1;
  if (microbatch * accumulation <= 1 << 20)
    import.set_own("training.local_batch_size",
                   Json(static_cast<std::int64_t>(microbatch * std::floor(accumulation))),
                   "rows of a microbatch x gradient_accumulation_steps");
  if (!import.value_of(kStepsKey) && !import.value_of(kEpochsKey))
    import.prepare("set training.steps; an epoch is rows / training.local_batch_size steps");
  if (!import.value_of("parallelism.pipeline_parallel_degree"))
    import.set_own("parallelism.pipeline_parallel_degree", Json(1), "more divides the layers");
  const Json* decay = import.value_of("optimizer.weight_decay");
  const bool decays = decay && is_true(*decay) && !import.trainer().is("torchtune");
  if (decays && !import.value_of("lora.rank") && ConfigImport::takes_text("optimizer.no_decay"))
    import.set_own("optimizer.no_decay", Json("norms-and-biases"), "as Hugging Face's Trainer");
  const bool validates = import.value_of("validation.files") || import.value_of("validation.split");
  if (!validates) import.unset("validation.interval", "no validation rows");
}

}  // namespace sluice::detail
