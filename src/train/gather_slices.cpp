#include "train/gather_slices.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "layer/slice.h"
#include "optim/packed_parts.h"

namespace sluice {
namespace {

// Returns the tensor-parallel parameter to which a tensor belongs. Returns null for state without
// an element per parameter element.
const ParameterInfo* divided_of(const std::string& name, const at::Tensor& tensor,
                                const std::map<std::string, const ParameterInfo*>& parameters) {
  auto found = parameters.find(name);
  if (found == parameters.end()) found = parameters.find(name.substr(name.find('/') + 1));
  if (found == parameters.end() || found->second->is_whole()) return nullptr;
  return tensor.dim() == static_cast<std::int64_t>(found->second->global_shape.size())
             ? found->second
             : nullptr;
}

ParameterInfo as_held_by(const ParameterInfo& parameter, int share) {
  ParameterInfo other = parameter;
  const int each = parameter.slices.size();
  other.slices = {share * each, (share + 1) * each, parameter.slices.count};
  return other;
}

std::int64_t held_elements(const ParameterInfo& parameter) {
  std::int64_t all = 0;
  for (const Slice& box : parameter.boxes()) {
    std::int64_t elements = 1;
    for (const IndexRange& range : box) elements *= range.size;
    all += elements;
  }
  return all;
}

at::Tensor box_of(at::Tensor whole, const Slice& box) {
  for (std::size_t d = 0; d < box.size(); ++d)
    whole = whole.narrow(static_cast<std::int64_t>(d), box[d].offset, box[d].size);
  return whole;
}

void put(const ParameterInfo& held, const at::Tensor& flat, const at::Tensor& whole) {
  std::vector<std::int64_t> shape = held.global_shape;
  std::int64_t size = 0;
  const auto dim = static_cast<std::size_t>(held.split->dim);
  for (const Slice& box : held.boxes()) size += box[dim].size;
  shape[dim] = size;
  for_each_box(held, flat.view(shape),
               [&](const Slice& box, const at::Tensor& part) { box_of(whole, box).copy_(part); });
}

}  // namespace

std::map<std::string, const ParameterInfo*> parameters_by_name(const std::vector<Stage*>& stages) {
  std::map<std::string, const ParameterInfo*> parameters;
  for (Stage* stage : stages) {
    for (const ParameterInfo& info : stage->parameters()) parameters.emplace(info.name, &info);
  }
  return parameters;
}

NamedTensors gather_slices(NamedTensors tensors,
                           const std::map<std::string, const ParameterInfo*>& parameters,
                           const RunGroups& groups) {
  if (!groups.shares) return tensors;
  const at::NoGradGuard no_grad;
  const auto num_shares = static_cast<std::size_t>(groups.num_shares);
  const auto own = static_cast<std::size_t>(groups.share);
  NamedTensors gathered;
  std::vector<std::int64_t> load(num_shares, 0);
  std::vector<std::vector<at::Tensor>> parts(num_shares);
  std::vector<std::pair<const ParameterInfo*, std::size_t>> mine;
  for (auto& [name, tensor] : tensors) {
    const ParameterInfo* info = divided_of(name, tensor, parameters);
    if (!info) {
      if (groups.is_first_share()) gathered.emplace_back(name, std::move(tensor));
      continue;
    }
    const auto receiver =
        static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    load[receiver] += c10::multiply_integers(info->global_shape) * tensor.element_size();
    parts[receiver].push_back(tensor.detach().contiguous().view(-1));
    if (receiver != own) continue;
    mine.emplace_back(info, gathered.size());
    gathered.emplace_back(name,
                          at::empty(info->global_shape, tensor.options().requires_grad(false)));
  }
  std::vector<at::Tensor> pieces(num_shares);
  for (std::size_t share = 0; share < num_shares; ++share) {
    if (!parts[share].empty())
      pieces[share] = pack_parts(parts[share], parts[share].front().device());
  }
  const std::vector<at::Tensor> given = groups.shares.all_to_all(std::move(pieces)).wait();
  for (int share = 0; !mine.empty() && share < groups.num_shares; ++share) {
    std::vector<PartMeta> metas;
    for (const auto& [info, place] : mine) {
      metas.push_back(
          {held_elements(as_held_by(*info, share)), gathered[place].second.scalar_type()});
    }
    const std::vector<at::Tensor> unpacked =
        unpack_parts(given[static_cast<std::size_t>(share)], metas);
    for (std::size_t i = 0; i < mine.size(); ++i)
      put(as_held_by(*mine[i].first, share), unpacked[i], gathered[mine[i].second].second);
  }
  return gathered;
}

at::Tensor held_of(const ParameterInfo& parameter, const at::Tensor& whole) {
  if (parameter.is_whole()) return whole;
  std::vector<at::Tensor> parts;
  for (const Slice& box : parameter.boxes()) parts.push_back(box_of(whole, box));
  return at::cat(parts, parameter.split->dim);
}

}  // namespace sluice
