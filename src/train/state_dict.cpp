#include "train/state_dict.h"

#include <ATen/core/grad_mode.h>

#include <map>
#include <set>
#include <utility>

#include "comm/gather_messages.h"
#include "optim/packed_parts.h"
#include "sluice/parts/saver.h"

namespace sluice {
namespace {

constexpr int kReceiver = 0;

struct Listed {
  std::vector<std::string> names;
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<PartMeta> metas;
};

Packer write_list(const NamedTensors& tensors, const std::map<std::string, std::string>& ties) {
  Packer message;
  message.add(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    message.add(name).add(tensor.sizes().vec());
    message.add(static_cast<std::int8_t>(tensor.scalar_type()));
  }
  message.add(ties.size());
  for (const auto& [use, first] : ties) message.add(use).add(first);
  return message;
}

Listed read_list(Unpacker& message, std::map<std::string, std::string>& ties) {
  Listed listed;
  for (auto count = message.take<std::size_t>(); count > 0; --count) {
    listed.names.push_back(message.take<std::string>());
    listed.shapes.push_back(message.take<std::vector<std::int64_t>>());
    std::int64_t elements = 1;
    for (const std::int64_t size : listed.shapes.back()) elements *= size;
    listed.metas.push_back({elements, static_cast<at::ScalarType>(message.take<std::int8_t>())});
  }
  for (auto count = message.take<std::size_t>(); count > 0; --count) {
    auto use = message.take<std::string>();
    ties[use] = message.take<std::string>();
  }
  message.finish();
  return listed;
}

}  // namespace

NamedTensors gather_state_dict(const PipelineRank& own_rank) {
  const at::NoGradGuard no_grad;
  const RunGroups& groups = own_rank.share().groups;
  RankState state = own_rank.weights(groups, /*all=*/true);
  NamedTensors own = std::move(state.parameters);
  own.insert(own.end(), state.buffers.begin(), state.buffers.end());
  std::vector<at::Tensor> parts;
  for (const auto& [name, tensor] : own)
    parts.push_back(tensor.detach().cpu().contiguous().view(-1));
  std::vector<at::Tensor> pieces(static_cast<std::size_t>(groups.world.size()));
  if (!parts.empty()) pieces[kReceiver] = pack_parts(parts, at::kCPU);
  parts.clear();
  auto given = groups.world.all_to_all(std::move(pieces));
  std::vector<Unpacker> lists =
      gather_messages(groups.world, write_list(own, state.ties), "the whole state");
  const std::vector<at::Tensor> packed = given.wait();
  if (groups.world.rank() != kReceiver) return {};

  NamedTensors whole;
  std::map<std::string, at::Tensor> by_name;
  std::map<std::string, std::string> ties;
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    const Listed listed = read_list(lists[rank], ties);
    if (listed.names.empty()) continue;
    const std::vector<at::Tensor> values = unpack_parts(packed[rank], listed.metas);
    for (std::size_t i = 0; i < values.size(); ++i) {
      // Several ranks may have equal buffers of the same name.
      if (by_name.contains(listed.names[i])) continue;
      const at::Tensor value = values[i].view(listed.shapes[i]).clone();
      by_name.emplace(listed.names[i], value);
      whole.emplace_back(listed.names[i], value);
    }
  }
  for (const auto& [use, first] : ties) whole.emplace_back(use, by_name.at(first));
  return whole;
}

}  // namespace sluice
