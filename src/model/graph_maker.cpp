#include "model/graph_modules.h"
#include "model/makers.h"

namespace sluice::detail {
namespace {

class GraphMaker : public ModelMaker {
 public:
  Model model(const ModelSpec& spec, const LayerOptions& /*options*/) const override {
    return graph_model(spec);
  }
  std::string kernels(const ModelSpec& /*spec*/, bool /*fused*/) const override {
    return "those of LibTorch, as exported";
  }
};

}  // namespace

const ModelMaker& graph_maker() {
  static const GraphMaker maker;
  return maker;
}

}  // namespace sluice::detail
