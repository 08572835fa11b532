#include <ATen/ATen.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/name_pattern.h"
#include "parallel/divided_weights.h"
#include "parallel/tree_exchange.h"
#include "sluice/error.h"
#include "sluice/parts/run_options.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice {
namespace {

using detail::DividedWeights;

std::string joined(const std::string& before, const std::string& name) {
  return before.empty() || name.empty() ? before + name : before + "." + name;
}

[[noreturn]] void refuse(const std::string& module, const std::string& what,
                         const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = formatted("module '{}' {}", module, what),
                                  .where = "parallelize_module",
                                  .remedy = remedy});
}

class Divider {
 public:
  Divider(LocalChunk& chunk, std::size_t layer, const SliceGroup& tp)
      : chunk_(chunk), layer_(layer), tp_(tp) {}

  void divide(const std::string& name, torch::nn::Module& module, ParallelStyle style) {
    const std::string shown = joined(chunk_.prefixes[layer_], name);
    if (style == ParallelStyle::kSequence) {
      const auto parameters = module.named_parameters();
      if (parameters.is_empty())
        refuse(shown, "has no parameters that rows share", "leave it out of the table");
      for (const auto& item : parameters) share(joined(name, item.key()), item.value());
      return;
    }
    if (auto* linear = module.as<torch::nn::LinearImpl>()) {
      const int dim = style == ParallelStyle::kRowwise ? 1 : 0;
      if (const auto& weights = chunk_.divided[layer_])
        weights->add_product(style, linear->weight.size(dim));
      cut(joined(name, "weight"), linear->weight, dim, style);
      if (!linear->bias.defined()) return;
      if (dim == 0)
        cut(joined(name, "bias"), linear->bias, 0, style);
      else
        list(joined(name, "bias"), linear->bias, style, linear->bias.size(0));
      return;
    }
    auto* embedding = module.as<torch::nn::EmbeddingImpl>();
    if (!embedding)
      refuse(shown, "is neither a torch::nn::Linear nor a torch::nn::Embedding",
             "use ColumnParallelLinear or RowParallelLinear in it, or leave it out of the table");
    if (style != ParallelStyle::kRowwise)
      refuse(shown, "is an embedding, whose rows are divided", "give it the style kRowwise");
    if (embedding->options.max_norm() || embedding->options.scale_grad_by_freq() ||
        embedding->options.sparse())
      refuse(shown, "has max_norm, scale_grad_by_freq or sparse, which need the whole table",
             "leave it out of the table");
    cut(joined(name, "weight"), embedding->weight, 0, style);
  }

  // Registers unmatched weights as whole, unless their module handles slices itself.
  void list_whole(const std::string& name, const torch::nn::Module& module) {
    const auto& weights = chunk_.divided[layer_];
    if (!weights || dynamic_cast<const SlicedModule*>(&module)) return;
    for (const auto& item : module.named_parameters(/*recurse=*/false)) {
      if (!item.value().defined() || weights->has(item.value())) continue;
      weights->add_whole(item.value(), joined(joined(chunk_.prefixes[layer_], name), item.key()));
    }
  }

 private:
  void list(const std::string& inside, const at::Tensor& parameter, ParallelStyle style,
            std::int64_t length) {
    if (tp_.slices().count == 1) return;  // with one slice, modules stay unchanged
    const auto& weights = chunk_.divided[layer_];
    const std::string name = joined(chunk_.prefixes[layer_], inside);
    if (weights->has(parameter))
      refuse(name, "is divided twice", "let only one line of one table match it");
    weights->add(parameter, {style, length, name});
  }

  void share(const std::string& inside, const at::Tensor& parameter) {
    list(inside, parameter, ParallelStyle::kSequence, 0);
  }

  void cut(const std::string& inside, const at::Tensor& parameter, int dim, ParallelStyle style) {
    const std::int64_t length = parameter.size(dim);
    list(inside, parameter, style, length);
    if (tp_.slices().count == 1) return;
    ParameterSlices slices;
    slices.global_shape = parameter.sizes().vec();
    slices.split = ParameterSplit{.dim = dim};
    slices.slices = tp_.slices();
    chunk_.slices.emplace_back(joined(chunk_.prefixes[layer_], inside), slices);
    if (tp_.degree() == 1) return;
    const at::NoGradGuard no_grad;
    parameter.set_data(detail::part_of(parameter.detach(), dim, tp_.range(length))
                           .clone(at::MemoryFormat::Contiguous));
  }

  LocalChunk& chunk_;
  std::size_t layer_;
  const SliceGroup& tp_;
};

// Passes a column-parallel product that is not yet summed to later layers, until one has a
// row-parallel product.
void carry_open_products(LocalChunk& chunk) {
  const auto first = std::find_if(chunk.divided.begin(), chunk.divided.end(),
                                  [](const auto& layer) { return layer && layer->has_products(); });
  std::optional<std::int64_t> open;
  if (chunk.is_first) open = 0;
  if (!chunk.is_first && first != chunk.divided.end()) open = (*first)->closes();
  std::shared_ptr<const DividedWeights> opener;
  for (const auto& layer : chunk.divided) {
    if (!layer) continue;
    open = layer->begin_with(open, open.value_or(0) > 0 ? opener : nullptr);
    if (layer->has_products()) opener = layer;
  }
}

const MeshAxis& tensor_axis(const LocalChunk& chunk) {
  return chunk.world_mesh[chunk.axis_names.tp];
}

}  // namespace

SliceGroup::SliceGroup(const LocalChunk& chunk, std::int64_t sequence_dim)
    : SliceGroup(tensor_axis(chunk).group, chunk.tensor_parallel, sequence_dim) {}

void parallelize_module(LocalChunk& chunk, const ParallelTable& table, std::int64_t sequence_dim) {
  const SliceGroup tp(chunk, sequence_dim);
  intercept_more_operators();
  std::set<std::string> fitting;
  chunk.divided.resize(chunk.modules.size());
  for (std::size_t layer = 0; layer < chunk.modules.size(); ++layer) {
    if (tp.slices().count > 1 && !chunk.divided[layer])  // a layer without weights may have dropout
      chunk.divided[layer] = std::make_shared<DividedWeights>(tp);
    if (!chunk.modules[layer]) continue;
    Divider divider(chunk, layer, tp);
    const auto modules = chunk.modules[layer]->named_modules("", /*include_self=*/true);
    for (const auto& item : modules) {
      const std::string name = joined(chunk.prefixes[layer], item.key());
      for (const auto& [pattern, style] : table) {
        if (!matches_pattern(pattern, name)) continue;
        fitting.insert(pattern);
        divider.divide(item.key(), *item.value(), style);
        break;
      }
      divider.list_whole(item.key(), *item.value());
    }
  }
  carry_open_products(chunk);
  if (chunk.num_stages > 1) return;  // unmatched patterns may match modules of other stages
  for (const auto& [pattern, style] : table) {
    if (fitting.contains(pattern)) continue;
    throw Error(ErrorKind::kUsage,
                {.what = "no module is called '" + pattern + "'",
                 .where = "parallelize_module",
                 .remedy = "give names of modules, where * stands for any characters"});
  }
}

}  // namespace sluice
