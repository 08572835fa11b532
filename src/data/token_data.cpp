#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "data/batch_rows.h"
#include "data/counted_labels.h"
#include "data/data_entries.h"
#include "data/file_watch.h"
#include "data/sequence_order.h"
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

namespace {

struct CountedMicrobatches {
  const TokenDataOptions& options;
  const MicrobatchCount& count;
  std::int64_t batch_size = 0;
  std::int64_t total = 0;
  std::optional<data::BatchRows> rows = {};

  void set(std::int64_t row, const data::Sequence& sequence) {
    const std::int64_t place = row % options.microbatch_size;
    const std::int64_t size = std::min(options.microbatch_size, batch_size - (row - place));
    if (place == 0) rows.emplace(size, options);
    rows->set(place, sequence);
    if (place + 1 == size) total += count(rows->take());
  }
};

// Requires fields of equal sizes in the rows of a microbatch.
class SameSizes {
 public:
  explicit SameSizes(const TokenDataOptions& options) : options_(options) {}
  bool is_asked() const { return options_.microbatch_size > 0 && !options_.fields.empty(); }

  template <typename Place>
  void check(std::int64_t row, const data::Sequence& sequence, const Place& place) {
    if (!is_asked()) return;
    if (row % options_.microbatch_size == 0) {
      first_ = sizes_of(sequence);
      first_place_ = place;
      return;
    }
    const std::vector<std::vector<std::int64_t>> sizes = sizes_of(sequence);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == first_[i]) continue;
      if (options_.fields[i].concatenated && have_same_items(sizes[i], first_[i])) continue;
      throw Error(
          ErrorKind::kInput,
          {.what = formatted("'{}' has the shape {}, but {} in the first row of the microbatch, {}",
                             options_.fields[i].name, shape_text(sequence.fields[i].sizes),
                             shape_text(first_[i]), first_place_()),
           .where = place(),
           .remedy = "give rows of a microbatch the same sizes, or set `microbatch_size` = 1"});
    }
  }

 private:
  // Compares the item sizes of a concatenated field (variable number of items) in two rows. A row
  // without items matches any.
  static bool have_same_items(const std::vector<std::int64_t>& a,
                              const std::vector<std::int64_t>& b) {
    return a[0] == 0 || b[0] == 0 || std::equal(a.begin() + 1, a.end(), b.begin() + 1, b.end());
  }
  // Padding changes sizes of kRowTokens to seq_len.
  std::vector<std::vector<std::int64_t>> sizes_of(const data::Sequence& sequence) const {
    std::vector<std::vector<std::int64_t>> sizes;
    for (std::size_t i = 0; i < options_.fields.size(); ++i) {
      sizes.push_back(sequence.fields[i].sizes);
      for (std::size_t d = 0; d < sizes[i].size(); ++d)
        if (options_.fields[i].sizes[d] == kRowTokens) sizes[i][d] = options_.seq_len;
    }
    return sizes;
  }

  const TokenDataOptions& options_;
  std::vector<std::vector<std::int64_t>> first_;
  std::function<std::string()> first_place_;
};

}  // namespace

struct TokenData::Impl {
  explicit Impl(TokenDataOptions of)
      : options(std::move(of)),
        counts_rows(!options.tokens || options.count == CountOf::kRows),
        watch(options.data.files),
        entries(options),
        end(end_of(options, entries.num_sequences())) {}

  // Returns 0 if there is no end.
  static std::int64_t end_of(const TokenDataOptions& options, std::uint64_t num_sequences) {
    if (options.epochs == 0) return 0;
    return std::max<std::int64_t>(
        1, std::llround(options.epochs * static_cast<double>(num_sequences)));
  }
  // Rows from here on do not count.
  std::int64_t counted_end() const {
    return end == 0 || counts_rows ? std::numeric_limits<std::int64_t>::max() : end;
  }

  // Reads the whole batch in order, so that all replicas report the same bad row.
  std::vector<StepShare> shares(DataPosition position, std::int64_t batch_size,
                                const std::vector<BatchRange>& own,
                                const MicrobatchCount& count = {}) const {
    std::vector<data::BatchRows> rows;
    rows.reserve(own.size());
    for (const BatchRange& range : own) rows.emplace_back(range.count, options);
    CountedMicrobatches microbatches{options, count, batch_size};
    SameSizes same_sizes(options);
    watch.look();
    std::int64_t total_counted = 0;
    for (std::int64_t row = 0; row < batch_size; ++row) {
      const data::DataEntries::Place place = entries.at(position, row);
      const data::SequenceSource& source = entries.source(place.entry);
      const auto holds = [&](const BatchRange& range) {
        return row >= range.first && row < range.first + range.count;
      };
      const bool is_read = count || same_sizes.is_asked();
      const bool counts = position.sequence + row < counted_end();
      if (!is_read && std::none_of(own.begin(), own.end(), holds)) {
        if (counts) total_counted += source.counted_labels(place.sequence);
        continue;
      }
      data::Sequence sequence = source.read(place.sequence);
      if (!counts)
        std::fill(sequence.labels.begin(), sequence.labels.end(),
                  static_cast<std::int32_t>(kIgnoredLabel));
      same_sizes.check(row, sequence, [&source, place] { return source.place(place.sequence); });
      total_counted += count_labels(std::span<const std::int32_t>(sequence.labels));
      for (std::size_t i = 0; i < own.size(); ++i) {
        if (holds(own[i])) rows[i].set(row - own[i].first, sequence);
      }
      if (count) microbatches.set(row, sequence);
    }
    if (counts_rows) total_counted = batch_size;
    if (count) total_counted = microbatches.total;
    std::vector<StepShare> shares;
    shares.reserve(rows.size());
    for (data::BatchRows& of_one : rows) shares.push_back({of_one.take(), total_counted});
    return shares;
  }

  TokenDataOptions options;
  bool counts_rows;
  mutable data::FileWatch watch;
  data::DataEntries entries;
  std::int64_t end;
};

TokenData::TokenData(TokenDataOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
TokenData::~TokenData() = default;
TokenData::TokenData(TokenData&&) noexcept = default;
TokenData& TokenData::operator=(TokenData&&) noexcept = default;

std::int64_t TokenData::num_sequences() const {
  return static_cast<std::int64_t>(impl_->entries.num_sequences());
}
std::int64_t TokenData::num_steps(std::int64_t batch_size, const StepsDone& done) const {
  if (impl_->end == 0) return 0;
  const std::int64_t left = std::max<std::int64_t>(0, impl_->end - done.position.sequence);
  return done.steps + (left + batch_size - 1) / batch_size;
}
DataPosition TokenData::position_of(std::int64_t step, std::int64_t batch_size,
                                    const StepsDone& done) const {
  const DataPosition position = position_of_step(step, batch_size, done);
  return {std::min(position.sequence, std::max(impl_->counted_end(), done.position.sequence))};
}
std::int64_t TokenData::num_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& source : impl_->entries.sources()) bytes += source->num_bytes();
  return static_cast<std::int64_t>(bytes);
}
std::vector<std::string> TokenData::warnings() const { return impl_->entries.warnings(); }
std::map<std::string, std::string> TokenData::choices() const { return impl_->entries.choices(); }
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
                                              const StepsDone& done,
                                              const MicrobatchCount& count) const {
  const DataPosition position = position_of_step(step, batch_size, done);
  std::vector<StepShare> shares;
  try {
    shares = impl_->shares(position, batch_size, own, count);
  } catch (const Error& error) {
    throw Error(error.kind(), {.what = error.fact(),
                               .where = formatted("step {}, {}", step, error.where()),
                               .remedy = error.remedy()});
  }
  if (!shares.empty() && shares.front().total_counted == 0)
    data::refuse_uncounted(impl_->entries, step, position,
                           std::min(batch_size, impl_->counted_end() - position.sequence));
  return shares;
}

bool TokenData::counts_labels() const { return !impl_->counts_rows; }

void TokenData::require_counted_labels(std::int64_t steps, std::int64_t batch_size,
                                       const StepsDone& done) const {
  if (impl_->counts_rows) return;
  data::require_counted_labels(impl_->entries, steps, batch_size, done, impl_->counted_end());
}

}  // namespace sluice
