// The result must be an input error or settings within range.
#include <cmath>
#include <cstdint>
#include <string>

#include "family/lora/adapter_config.h"
#include "fuzz/require.h"
#include "sluice/error.h"

using sluice::test::require;

extern "C" int fuzz_adapter_config(const std::uint8_t* data, std::size_t size) {
  try {
    const sluice::detail::AdapterConfig config =
        sluice::detail::parse_adapter_config(std::string(data, data + size), "adapter_config.json");
    require(config.rank >= 1 && config.rank <= sluice::detail::kMaxLoraRank);
    require(config.alpha > 0 && std::isfinite(config.alpha));
    require(config.dropout >= 0 && config.dropout < 1);
    for (const std::string module : {"model.layers.0.self_attn.q_proj", "lm_head"}) {
      require(config.rank_at(module) >= 1);
      require(config.alpha_at(module) > 0);
      const sluice::detail::LinearLayer layer{.name = module, .is_head = module == "lm_head"};
      require(!config.targets.all_linear || config.is_targeted(layer) != layer.is_head);
      config.is_excluded(layer);
    }
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kInput);
  }
  return 0;
}
