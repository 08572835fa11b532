#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <memory>

#include "base/file.h"
#include "checkpoint/checkpoint_export.h"
#include "checkpoint/export_directory.h"
#include "checkpoint/read_manifest.h"
#include "io/adapter_directory.h"
#include "io/hf_files.h"
#include "io/hf_shards.h"
#include "io/safetensors.h"
#include "kind/adapter_files.h"
#include "sluice/error.h"
#include "sluice/lora.h"
#include "sluice/parts/hf_directory.h"

namespace sluice {
namespace {

// Reads an adapter matrix by its parameter name, as float32.
using ReadMatrix = std::function<at::Tensor(const std::string& parameter)>;

ReadMatrix matrices_of(const std::string& path) {
  if (was_committed(path)) {
    const auto checkpoint = std::make_shared<const Checkpoint>(path);
    return [checkpoint](const std::string& parameter) {
      return checkpoint->read(SavedKind::kWeights, kAdapterPrefix + parameter).to(at::kFloat);
    };
  }
  const auto directory = std::make_shared<const AdapterDirectory>(path);
  return [directory](const std::string& parameter) {
    return directory->file().read(kAdapterPrefix + parameter).to(at::kFloat);
  };
}

at::Tensor merged(const at::Tensor& weight, const AdaptedLinear& layer, double scale,
                  const ReadMatrix& read) {
  const at::Tensor a = read(layer.a()), b = read(layer.b());
  at::Tensor sum = weight.to(at::kFloat);
  if (layer.transposed)
    sum.addmm_(a.t(), b.t(), 1, scale);
  else
    sum.addmm_(b, a, 1, scale);
  at::Tensor stored = sum.to(weight.scalar_type());
  if (weight.scalar_type() == at::kHalf &&
      at::isinf(stored).logical_and_(at::isfinite(sum)).any().item<bool>()) {
    throw Error(ErrorKind::kCheckpoint,
                {.what = "float16 cannot hold a sum of the base and the adapter",
                 .where = "tensor '" + layer.name + ".weight'",
                 .remedy = "convert the base to bfloat16 or float32 first"});
  }
  return stored;
}

class Merge {
 public:
  Merge(const std::string& path, const std::string& base)
      : spec_(read_model_spec(base)),
        adapter_(read_adapter(path, spec_)),
        base_(base),
        read_(matrices_of(path)) {
    for (const AdaptedLinear& layer : adapter_.layers)
      by_stored_[base_.shards().locate(layer.name + ".weight").entry->name] = &layer;
    for (const std::string& name : base_.names()) {
      const SafetensorsReader* const file = base_.shards().find(name)->file;
      files_.emplace(file->path(), file);
    }
  }

  void write_to(const std::string& directory, ExportedDirectory& exported) const {
    for (const auto& [path, file] : files_) {
      write_shard(*file, directory + "/" + base_name(path));
      ++exported.num_files;
      exported.bytes += File::open(directory + "/" + base_name(path)).size();
    }
    std::vector<std::string> others = io::tokenizer_files(base_.path());
    others.push_back(base_.path() + "/" + io::kHfConfigFile);
    const std::string single = base_.path() + "/" + io::shard_name("model", 0, 1);
    if (!files_.contains(single)) others.push_back(base_.path() + "/" + io::kHfIndexFile);
    for (const std::string& file : others) {
      exported.bytes += io::copy_file(file, directory + "/" + base_name(file)).bytes;
      ++exported.num_files;
    }
    exported.has_config = true;
  }

 private:
  void write_shard(const SafetensorsReader& shard, const std::string& path) const {
    SafetensorsWriter::Plan plan;
    for (const SafetensorsEntry& entry : shard.entries())
      plan.emplace_back(entry.name, shard.meta(entry.name));
    SafetensorsWriter writer(path, plan, SafetensorsWriter::Placement::kInPlace, shard.metadata());
    for (const SafetensorsEntry& entry : shard.entries()) {
      const at::Tensor weight = shard.read(entry.name);
      const auto layer = by_stored_.find(entry.name);
      writer.write(entry.name,
                   layer == by_stored_.end()
                       ? weight
                       : merged(weight, *layer->second, adapter_.scale(*layer->second), read_));
    }
    writer.finish();
  }

  const ModelSpec spec_;
  const Adapter adapter_;
  const HfDirectory base_;
  const ReadMatrix read_;
  std::map<std::string, const AdaptedLinear*> by_stored_;
  std::map<std::string, const SafetensorsReader*> files_;
};

}  // namespace

ExportedDirectory export_merged(const std::string& adapter, const std::string& base,
                                const std::string& out) {
  const at::NoGradGuard no_grad;
  const Merge merge(adapter, base);
  ExportDirectory directory(out);
  ExportedDirectory exported;
  merge.write_to(directory.path(), exported);
  directory.publish();
  return exported;
}

}  // namespace sluice
