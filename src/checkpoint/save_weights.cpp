#include "checkpoint/save_weights.h"

#include <optional>

#include "comm/gather_messages.h"

namespace sluice {
namespace {

// Rank 0 makes and publishes the directory.
constexpr int kPublisher = 0;

void write_shards(WireWriter& message, const std::vector<HfShard>& shards) {
  message.add(shards.size());
  for (const HfShard& shard : shards)
    message.add(shard.file).add(shard.tensors).add(shard.bytes).add(shard.dtype);
}

void read_shards(WireReader& message, std::vector<HfShard>& shards) {
  for (auto num_shards = message.take<std::size_t>(); num_shards > 0; --num_shards) {
    HfShard& shard = shards.emplace_back();
    shard.file = message.take<std::string>();
    shard.tensors = message.take<std::vector<std::string>>();
    shard.bytes = message.take<std::uint64_t>();
    shard.dtype = message.take<std::string>();
  }
}

}  // namespace

std::string save_weights(const std::string& folder, std::int64_t step,
                         const std::vector<ParameterInfo>& parameters,
                         const std::string& config_text, const std::string& source_directory,
                         const Group& world) {
  std::optional<HfWriter> writer;
  if (world.rank() == kPublisher) writer.emplace(folder, step);
  const std::string directory =
      world.broadcast(writer ? writer->directory() : "", kPublisher).wait();

  // A rank that cannot write says so to all instead of leaving: the directory goes when nobody
  // writes to it any more, and everybody knows the one reason.
  WireWriter own;
  try {
    const std::vector<HfShard> shards = write_hf_shards(directory, world.rank(), parameters);
    own.add(true);
    write_shards(own, shards);
  } catch (const Error& error) {
    own.add(false).add(std::string(error.what()));
  }
  std::vector<HfShard> shards;
  std::optional<std::string> first_failure;
  for (WireReader& message : gather_messages(world, own, "shards of the weights")) {
    if (message.take<bool>()) {
      read_shards(message, shards);
    } else if (const auto failure = message.take<std::string>(); !first_failure) {
      first_failure = failure;
    }
    message.finish();
  }
  if (first_failure) throw Error(ErrorKind::kCheckpoint, {.what = *first_failure});
  return world
      .broadcast(writer ? writer->publish(shards, config_text, source_directory) : "", kPublisher)
      .wait();
}

}  // namespace sluice
