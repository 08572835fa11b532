#include "checkpoint/gather_adapter.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "comm/gather_messages.h"
#include "kind/adapter_files.h"
#include "sluice/error.h"
#include "sluice/parts/saver.h"

namespace sluice {
namespace {

constexpr int kGatherer = 0;

struct Named {
  std::string name;
  std::vector<std::int64_t> shape;
};

std::vector<std::vector<Named>> gather_names(const NamedTensors& own, const Group& world) {
  Packer message;
  message.add(own.size());
  for (const auto& [name, tensor] : own) message.add(name).add(tensor.sizes().vec());
  std::vector<std::vector<Named>> of_ranks;
  for (Unpacker& of_rank : gather_messages(world, message, "parameters of the adapter")) {
    std::vector<Named>& names = of_ranks.emplace_back();
    for (auto left = of_rank.take<std::size_t>(); left > 0; --left) {
      names.emplace_back();
      names.back().name = of_rank.take<std::string>();
      names.back().shape = of_rank.take<std::vector<std::int64_t>>();
    }
    of_rank.finish();
  }
  return of_ranks;
}

at::Tensor packed(const NamedTensors& tensors) {
  std::vector<at::Tensor> flat;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.scalar_type() != at::kFloat)
      throw Error(ErrorKind::kInternal, {.what = "'" + name + "' of an adapter is not float32"});
    flat.push_back(tensor.detach().to(at::kCPU).flatten());
  }
  return flat.empty() ? at::Tensor() : at::cat(flat);
}

}  // namespace

NamedTensors gather_adapter(const NamedTensors& own, const Group& world) {
  const std::vector<std::vector<Named>> names = gather_names(own, world);
  std::vector<at::Tensor> pieces(static_cast<std::size_t>(world.size()));
  pieces[kGatherer] = packed(own);
  const std::vector<at::Tensor> given = world.all_to_all(std::move(pieces)).wait();
  NamedTensors all;
  if (world.rank() != kGatherer) return all;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    std::int64_t begin = 0;
    for (const Named& named : names[rank]) {
      const std::int64_t count = c10::multiply_integers(named.shape);
      all.emplace_back(kAdapterPrefix + named.name,
                       given[rank].narrow(0, begin, count).view(named.shape));
      begin += count;
    }
  }
  return all;
}

}  // namespace sluice
