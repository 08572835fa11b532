#include "job/model_config.h"

#include "base/strict_json.h"

namespace sluice {

Json model_of(const std::string& config_text) {
  Json config = parse_json(config_text).value_or(Json::object());
  if (!config.is_object()) return Json::object();
  for (const char* key : {"dtype", "torch_dtype", "transformers_version", "_name_or_path",
                          "_commit_hash", "architectures", "auto_map", "use_cache"})
    config.erase(key);
  return config;
}

}  // namespace sluice
