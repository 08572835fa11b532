#include "train/save_weights.h"

#include <numeric>
#include <optional>

#include "base/text.h"

namespace sluice {

std::string save_weights(const std::string& folder, std::int64_t step,
                         const std::vector<ParameterInfo>& parameters,
                         const std::string& config_text, const std::string& source_directory,
                         Transport& transport) {
  std::vector<int> everybody(static_cast<std::size_t>(transport.size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  const auto from_rank_0 = [&](const std::string& text) {
    return transport.all_gather(text, everybody).front();
  };

  std::optional<HfWriter> writer;
  if (transport.rank() == 0) writer.emplace(folder, step);
  const std::string directory = from_rank_0(writer ? writer->directory() : "");

  std::vector<std::string> written;
  for (const HfShard& shard : write_hf_shards(directory, transport.rank(), parameters)) {
    written.push_back(shard.to_text());
  }
  std::vector<HfShard> shards;
  for (const std::string& of_rank :
       transport.all_gather(join(written, std::string(1, '\0')), everybody)) {
    for (const std::string& text : split(of_rank, '\0')) shards.push_back(HfShard::from_text(text));
  }
  return from_rank_0(writer ? writer->publish(shards, config_text, source_directory) : "");
}

}  // namespace sluice
