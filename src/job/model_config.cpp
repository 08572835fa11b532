#include "job/model_config.h"

namespace sluice {

nlohmann::json model_of(const std::string& config_text) {
  nlohmann::json config = nlohmann::json::parse(config_text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return nlohmann::json::object();
  for (const char* key : {"dtype", "torch_dtype", "transformers_version", "_name_or_path",
                          "_commit_hash", "architectures", "auto_map", "use_cache"})
    config.erase(key);
  return config;
}

}  // namespace sluice
