#include "sluice/model.h"

#include <ATen/core/grad_mode.h>

#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "layer/draw_whole.h"
#include "layer/initialize_chunks.h"
#include "layer/slice.h"
#include "sluice/error.h"
#include "sluice/layer.h"
#include "sluice/parts/chunk.h"

namespace sluice {
namespace {

void initialize_tensors(const Initialization& user, Chunk& chunk, std::uint64_t seed) {
  std::unordered_set<const void*> drawn;
  for (ParameterInfo& parameter : chunk.parameters()) {
    if (!drawn.insert(parameter.tensor.const_data_ptr()).second) continue;
    const std::string& name = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
    const KeyedRandomScope scope(seed, 0, name, 0);
    at::Tensor value = parameter.tensor.detach();
    draw_whole(parameter, value, [&](at::Tensor& whole) { user.tensor(name, whole); });
  }
  for (auto& [name, buffer] : chunk.buffers()) {
    const KeyedRandomScope scope(seed, 0, name, 0);
    user.tensor(name, buffer);
  }
}

class TiedValues {
 public:
  explicit TiedValues(const std::vector<const ParameterInfo*>& parameters) {
    for (const ParameterInfo* parameter : parameters) {
      if (parameter->tied_to.empty()) continue;
      const at::Tensor value = parameter->tensor.detach();
      values_.emplace_back(value, value.clone());
    }
  }
  ~TiedValues() {
    for (auto& [value, before] : values_) value.copy_(before);
  }
  TiedValues(const TiedValues&) = delete;
  TiedValues& operator=(const TiedValues&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> values_;
};

// Calls draw() with whole parameters in the module, then cuts out this rank's slices, so that
// values do not depend on slices.
template <typename Draw>
void draw_module(const std::vector<const ParameterInfo*>& own, Draw draw, std::size_t next = 0) {
  while (next < own.size() && own[next]->is_whole()) ++next;
  if (next == own.size()) {
    draw();
    return;
  }
  at::Tensor parameter = own[next]->tensor;
  at::Tensor slices = parameter.detach();
  draw_whole(*own[next], slices, [&](at::Tensor& whole) {
    parameter.set_data(whole);
    draw_module(own, draw, next + 1);
    whole = parameter.detach();
    parameter.set_data(slices);
  });
}

// Rejects a module whose submodules run as separate layers, because one call must draw the module.
[[noreturn]] void refuse_pieces(const std::string& module) {
  throw Error(ErrorKind::kUsage,
              {.what = "parameters of '" + module + "' itself are in parts that run separately",
               .where = "Initialization::module, PipelineOptions::activation_checkpoint",
               .remedy = "set Initialization::tensor"});
}

void initialize_modules(const Initialization& user, Chunk& chunk, std::uint64_t seed) {
  std::map<std::string, bool> drawn;
  for (std::size_t i = 0; i < chunk.layers().size(); ++i) {
    const LayerSpec& layer = chunk.layers()[i];
    for (const auto& item : chunk.module(i).named_modules()) {
      torch::nn::Module& module = *item.value();
      std::vector<const ParameterInfo*> own;
      for (const at::Tensor& tensor : module.parameters(/*recurse=*/false)) {
        for (const ParameterInfo& parameter : chunk.parameters())
          if (parameter.tensor.is_same(tensor)) own.push_back(&parameter);
      }
      if (own.empty() && module.buffers(/*recurse=*/false).empty()) continue;
      std::string name = layer.full_name(item.key());
      if (name.ends_with('.')) name.pop_back();
      const auto [before, is_new] = drawn.emplace(name, !own.empty());
      if (!is_new && own.empty()) continue;
      if (!is_new && std::exchange(before->second, true)) refuse_pieces(name);
      const TiedValues kept(own);
      const KeyedRandomScope scope(seed, 0, name, 0);
      draw_module(own, [&] { user.module(name, module); });
    }
  }
}

}  // namespace

void initialize_chunks(const Initialization& user, const std::vector<Chunk*>& chunks,
                       std::uint64_t seed) {
  if (user.tensor && user.module) {
    throw Error(ErrorKind::kUsage, {.what = "initial values come both by tensor and by module",
                                    .where = "Model::initialization",
                                    .remedy = "set one of the two"});
  }
  // Draw defaults first, because parameters that the user's function skips must not keep their
  // factory's values. Draw them for all chunks first, because tied parameters share storage with
  // earlier chunks.
  for (Chunk* chunk : chunks) initialize_parameters(*chunk, seed);
  const at::NoGradGuard no_grad;
  for (Chunk* chunk : chunks) {
    if (user.tensor) {
      initialize_tensors(user, *chunk, seed);
    } else {
      initialize_modules(user, *chunk, seed);
    }
  }
}

void initialize_by(const Initialization& user, Chunk& chunk, std::uint64_t seed) {
  initialize_chunks(user, {&chunk}, seed);
}

}  // namespace sluice
