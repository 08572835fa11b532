// Qwen2: Yang et al., "Qwen2 Technical Report", arXiv:2407.10671.
#include "plan/families/qwen2.h"

#include "model/families.h"
#include "model/llama.h"

namespace sluice::detail {

std::vector<LayerSpec> make_qwen2_layers(const ModelSpec& model, const LayerOptions& options) {
  return assemble_llama_layers(config_of(model, read_qwen2_config), model, options);
}

}  // namespace sluice::detail
