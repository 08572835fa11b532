#include <algorithm>
#include <span>
#include <utility>

#include "base/format.h"
#include "data/batch_rows.h"
#include "data/counted_labels.h"
#include "data/data_entries.h"
#include "sluice/data.h"
#include "sluice/error.h"

namespace sluice {

std::int64_t TokenRows::counted_labels(std::int64_t first, std::int64_t count) const {
  std::int64_t counted = 0;
  const auto length = static_cast<std::size_t>(seq_len);
  for (std::int64_t row = first; row < first + count; ++row) {
    counted +=
        count_labels(std::span(labels).subspan(static_cast<std::size_t>(row) * length, length));
  }
  return counted;
}

struct TokenData::Impl {
  explicit Impl(const TokenDataOptions& options)
      : seq_len(options.seq_len), pad(options.data.pad), entries(options) {}

  // In order, so that of several bad rows every replica meets the first.
  std::vector<StepShare> shares(DataPosition position, std::int64_t batch_size,
                                const std::vector<BatchRange>& own) const {
    std::vector<data::BatchRows> rows;
    for (const BatchRange& range : own) rows.emplace_back(range.count, seq_len, pad);
    std::int64_t total_counted = 0;
    for (std::int64_t row = 0; row < batch_size; ++row) {
      const data::DataEntries::Place place = entries.at(position, row);
      const data::SequenceSource& source = entries.source(place.entry);
      const auto holds = [&](const BatchRange& range) {
        return row >= range.first && row < range.first + range.count;
      };
      if (std::none_of(own.begin(), own.end(), holds)) {
        total_counted += source.counted_labels(place.sequence);
        continue;
      }
      const data::Sequence sequence = source.read(place.sequence);
      total_counted += count_labels(std::span<const std::int32_t>(sequence.labels));
      for (std::size_t i = 0; i < own.size(); ++i) {
        if (holds(own[i])) rows[i].set(row - own[i].first, sequence);
      }
    }
    std::vector<StepShare> shares;
    for (data::BatchRows& of_one : rows) shares.push_back({of_one.take(), total_counted});
    return shares;
  }

  std::int64_t seq_len;
  Padding pad;
  data::DataEntries entries;
};

TokenData::TokenData(TokenDataOptions options) : impl_(std::make_unique<Impl>(options)) {}
TokenData::~TokenData() = default;
TokenData::TokenData(TokenData&&) noexcept = default;
TokenData& TokenData::operator=(TokenData&&) noexcept = default;

std::int64_t TokenData::num_sequences() const {
  return static_cast<std::int64_t>(impl_->entries.num_sequences());
}
std::int64_t TokenData::num_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& source : impl_->entries.sources()) bytes += source->num_bytes();
  return static_cast<std::int64_t>(bytes);
}
std::vector<std::string> TokenData::warnings() const { return impl_->entries.warnings(); }
std::optional<double> TokenData::unigram_entropy() const {
  const auto& sources = impl_->entries.sources();
  return sources.size() == 1 ? sources.front()->unigram_entropy() : std::nullopt;
}

TokenRows TokenData::read(DataPosition position, std::int64_t num_rows) const {
  return std::move(impl_->shares(position, num_rows, {{0, num_rows}}).front().rows);
}

TokenRows TokenData::step_rows(std::int64_t step, std::int64_t batch_size,
                               const StepsDone& done) const {
  return step_share(step, batch_size, {0, batch_size}, done).rows;
}

StepShare TokenData::step_share(std::int64_t step, std::int64_t batch_size, BatchRange own,
                                const StepsDone& done) const {
  return std::move(step_shares(step, batch_size, {own}, done).front());
}

std::vector<StepShare> TokenData::step_shares(std::int64_t step, std::int64_t batch_size,
                                              const std::vector<BatchRange>& own,
                                              const StepsDone& done) const {
  const DataPosition position = position_of_step(step, batch_size, done);
  std::vector<StepShare> shares;
  try {
    shares = impl_->shares(position, batch_size, own);
  } catch (const Error& error) {
    throw Error(error.kind(), {.what = error.fact(),
                               .where = formatted("step {}, {}", step, error.where()),
                               .remedy = error.remedy()});
  }
  if (!shares.empty() && shares.front().total_counted == 0)
    data::refuse_uncounted(impl_->entries, step, position, batch_size);
  return shares;
}

void TokenData::require_counted_labels(std::int64_t steps, std::int64_t batch_size,
                                       const StepsDone& done) const {
  data::require_counted_labels(impl_->entries, steps, batch_size, done);
}

}  // namespace sluice
