#include "data/data_entries.h"

#include <cmath>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "data/data_format.h"
#include "data/mixture.h"
#include "data/text_tokens.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

[[noreturn]] void refuse_weights(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "`data.weights`", .remedy = remedy});
}

// The number of files of each entry.
std::vector<std::int64_t> entries_of(const TokenDataOptions& options) {
  const std::vector<double>& weights = options.data.weights;
  const auto num_files = static_cast<std::int64_t>(options.data.files.size());
  std::vector<std::int64_t> entries = options.files_per_entry;
  if (entries.empty()) {
    if (weights.empty()) return {num_files};
    entries.assign(options.data.files.size(), 1);
  }
  if (!weights.empty() && weights.size() != entries.size()) {
    refuse_weights(formatted("{} for {} {} of `data.files`", counted(std::ssize(weights), "weight"),
                             entries.size(), entries.size() == 1 ? "entry" : "entries"),
                   "give one for each entry, or none");
  }
  if (weights.size() > Mixture::kMaxEntries) {
    refuse_weights(std::to_string(weights.size()) + " weights",
                   formatted("give at most {}: one entry may be a pattern for many files",
                             Mixture::kMaxEntries));
  }
  for (const double weight : weights) {
    if (!(weight > 0) || !std::isfinite(weight))
      refuse_weights("a weight of " + shortest(weight), "weights are above 0");
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i] < 1) {
      refuse_weights(formatted("entry {} of `data.files` has no file of its own", i + 1),
                     "its files are in an earlier entry: take them out of one of both");
    }
    total += entries[i];
  }
  if (total != num_files) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("the entries have {} of {}", total, counted(num_files, "file")),
                 .where = "TokenDataOptions::files_per_entry",
                 .remedy = "let them add up to all of `data.files`"});
  }
  return entries;
}

std::vector<std::unique_ptr<SequenceSource>> open_sources(
    const TokenDataOptions& options, const std::shared_ptr<const TextTokens>& tokens) {
  const DataOptions& data = options.data;
  SourceOptions common;
  common.seq_len = options.seq_len;
  common.vocab_size = options.vocab_size;
  common.max_positions = options.max_positions;
  common.truncate = data.truncate;
  common.pack = data.pack;
  common.assistant_only_loss = data.assistant_only_loss;
  common.chat_template = data.chat_template;
  common.model_family = options.model_family;
  std::vector<std::string> all;
  for (const std::string& file : data.files) all.push_back(data_file_of(file, data.format));
  std::vector<SourceOptions> entries;
  auto next = all.begin();
  for (const std::int64_t count : entries_of(options)) {
    SourceOptions entry = common;
    entry.files.assign(next, next + count);
    next += count;
    entry.format = common_format(entry.files, data.format);
    entries.push_back(std::move(entry));
  }
  std::vector<std::unique_ptr<SequenceSource>> sources;
  for (SourceOptions& entry : entries) {
    entry.tokens = tokens;
    sources.push_back(open_source(std::move(entry)));
  }
  return sources;
}

}  // namespace

DataEntries::DataEntries(const TokenDataOptions& options)
    : tokens_(std::make_shared<const TextTokens>(options)),
      sources_(open_sources(options, tokens_)),
      order_(sizes_of(sources_), options.data.weights, options.data.shuffle, options.seed) {}

std::vector<std::uint64_t> DataEntries::sizes_of(
    const std::vector<std::unique_ptr<SequenceSource>>& sources) {
  std::vector<std::uint64_t> sizes;
  for (const auto& source : sources) sizes.push_back(source->num_sequences());
  return sizes;
}

}  // namespace sluice::data
