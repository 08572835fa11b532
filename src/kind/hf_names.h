// Names by which transformers stores the models of a family.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace sluice {

struct HfNames {
  std::string_view model_type;
  std::string_view architecture;  // in `architectures` of config.json
  std::string_view base_prefix;   // name prefix that models without head lack: "model."
  // Name endings of buffers that old transformers stored.
  std::vector<std::string_view> buffers;
};

std::span<const HfNames> hf_names();
const HfNames* find_hf_names(std::string_view model_type);

}  // namespace sluice
