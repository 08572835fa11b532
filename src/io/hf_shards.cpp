// The weights of one rank as files of a directory that is not yet published.
#include "base/text.h"
#include "sluice/parts/hf_directory.h"

namespace sluice {
namespace {

std::uint64_t bytes_of(const ParameterInfo& parameter) { return parameter.tensor.nbytes(); }

void require_whole(const ParameterInfo& parameter) {
  if (parameter.is_whole()) return;
  throw Error(ErrorKind::kInternal,
              {.what = "'" + parameter.name + "' cannot be saved from " + to_text(parameter.slice) +
                       " of " + shape_text(parameter.global_shape) + " alone",
               .where = "weights of one rank",
               .remedy = "gather its slices first"});
}

HfShard write_shard(const std::string& directory, std::string file,
                    const std::vector<const ParameterInfo*>& parameters) {
  HfShard shard{std::move(file), {}, 0, dtype_name(parameters.front()->tensor.scalar_type())};
  SafetensorsWriter::Plan plan;
  for (const ParameterInfo* parameter : parameters) {
    plan.emplace_back(parameter->name, meta_of(parameter->tensor));
    shard.tensors.push_back(parameter->name);
    shard.bytes += bytes_of(*parameter);
  }
  SafetensorsWriter writer(directory + "/" + shard.file, plan);
  for (const ParameterInfo* parameter : parameters)
    writer.write(parameter->name, parameter->tensor);
  writer.finish();
  return shard;
}

}  // namespace

std::vector<HfShard> write_hf_shards(const std::string& directory, int rank,
                                     const std::vector<ParameterInfo>& parameters,
                                     std::uint64_t max_shard_bytes) {
  std::vector<HfShard> shards;
  std::vector<const ParameterInfo*> next;
  std::uint64_t next_bytes = 0;
  const auto flush = [&] {
    if (next.empty()) return;
    std::string file =
        "rank-" + std::to_string(rank) + "-" + std::to_string(shards.size()) + ".safetensors";
    shards.push_back(write_shard(directory, std::move(file), next));
    next.clear();
    next_bytes = 0;
  };
  for (const ParameterInfo& parameter : parameters) {
    if (!parameter.tied_to.empty()) continue;
    require_whole(parameter);
    if (next_bytes + bytes_of(parameter) > max_shard_bytes) flush();
    next.push_back(&parameter);
    next_bytes += bytes_of(parameter);
  }
  flush();
  return shards;
}

}  // namespace sluice
