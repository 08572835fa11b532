#include "io/adapter_directory.h"

#include <ATen/ATen.h>

#include <memory>

#include "io/hf_shards.h"
#include "io/safetensors.h"
#include "kind/adapter_files.h"
#include "layer/draw_low_rank.h"
#include "layer/draw_whole.h"
#include "sluice/error.h"
#include "sluice/lora.h"

namespace sluice {

AdapterDirectory::AdapterDirectory(const std::string& path) : file_(path + "/" + kAdapterFile) {}

void require_base_layers(const AdapterDirectory& directory, const HfDirectory& base) {
  const SafetensorsReader& file = directory.file();
  const std::string prefix = kAdapterPrefix, ending = kBaseLayerEnding;
  for (const SafetensorsEntry& entry : file.entries()) {
    if (!entry.name.starts_with(prefix) || !entry.name.ends_with(ending)) continue;
    const std::string layer =
        entry.name.substr(prefix.size(), entry.name.size() - prefix.size() - ending.size());
    const TensorSource source = base.shards().locate(layer + ".weight");
    const at::Tensor own = file.read(entry.name);
    if (at::equal(own, source.file->read(source.entry->name).to(own.scalar_type()))) continue;
    throw Error(ErrorKind::kInput,
                {.what = "the tensor is a weight of another base model than '" + base.path() + "'",
                 .where = file.path() + ", tensor '" + entry.name + "'",
                 .remedy = "give the base model that the adapter was trained on"});
  }
}

void load_adapter(const AdapterDirectory& directory, std::vector<ParameterInfo>& parameters) {
  for (ParameterInfo& parameter : parameters) {
    if (!is_adapter_parameter(parameter.name)) continue;
    for_each_box(parameter, parameter.tensor.detach(), [&](const Slice& box, at::Tensor part) {
      directory.file().read_into(kAdapterPrefix + parameter.name, box, part);
    });
  }
}

void draw_adapter(std::vector<ParameterInfo>& parameters, std::uint64_t seed) {
  for (ParameterInfo& parameter : parameters) {
    if (!is_adapter_parameter(parameter.name)) continue;
    at::Tensor value = parameter.tensor.detach();
    draw_whole(parameter, value,
               [&](at::Tensor& whole) { draw_low_rank(parameter.name, whole, seed); });
  }
}

std::function<void(const std::string&, at::Tensor&)> stored_values_with_adapter(
    const std::string& path, const std::string& adapter) {
  std::shared_ptr<const AdapterDirectory> own;
  if (!adapter.empty()) own = std::make_shared<const AdapterDirectory>(adapter);
  return [base = stored_values(path), own](const std::string& name, at::Tensor& value) {
    if (!is_adapter_parameter(name)) return base(name, value);
    if (own) own->file().read_into(kAdapterPrefix + name, value);
  };
}

}  // namespace sluice
