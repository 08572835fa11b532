#include "checkpoint/save_weights.h"

#include <numeric>
#include <optional>

#include "base/text.h"

namespace sluice {
namespace {
constexpr char kWritten = '+', kFailed = '-';
}  // namespace

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

  // A rank that cannot write says so to all instead of leaving: the directory goes when nobody
  // writes to it any more, and everybody knows the one reason.
  std::string written(1, kWritten);
  try {
    for (const HfShard& shard : write_hf_shards(directory, transport.rank(), parameters))
      written += shard.to_text() + '\0';
  } catch (const Error& error) {
    written = kFailed + std::string(error.what());
  }
  const std::vector<std::string> of_ranks = transport.all_gather(written, everybody);
  for (const std::string& text : of_ranks) {
    if (text.front() == kFailed) throw Error(ErrorKind::kCheckpoint, text.substr(1));
  }
  std::vector<HfShard> shards;
  for (const std::string& of_rank : of_ranks) {
    for (const std::string& text : split(of_rank.substr(1), '\0')) {
      if (!text.empty()) shards.push_back(HfShard::from_text(text));
    }
  }
  return from_rank_0(writer ? writer->publish(shards, config_text, source_directory) : "");
}

}  // namespace sluice
