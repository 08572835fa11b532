#include "data/byte_tokens.h"
#include "data/counted_labels.h"
#include "data/data_format.h"
#include "sluice/data.h"
#include "sluice/error.h"
#include "sluice/parts/labels.h"

namespace sluice {
namespace {

void require_built(const DataOptions& options) {
  const auto refuse_unless = [](bool is_default, const std::string& key) {
    if (is_default) return;
    throw Error(ErrorKind::kUsage,
                {.what = key + " is not built yet", .remedy = "leave it at its default"});
  };
  const DataOptions defaults;
  refuse_unless(options.pad == defaults.pad, "data.pad");
  refuse_unless(options.pack == defaults.pack, "data.pack");
  refuse_unless(options.chat_template == defaults.chat_template, "data.chat_template");
  refuse_unless(options.weights == defaults.weights, "data.weights");
}

std::unique_ptr<data::SequenceSource> open_source(const TokenDataOptions& options) {
  require_built(options.data);
  const DataFormat format = data::common_format(options.data);
  data::SourceOptions source{options.data.files, options.seq_len, options.vocab_size,
                             options.data.truncate, data::refusal_of_bytes(options)};
  return format == DataFormat::kText ? data::open_text(std::move(source))
                                     : data::open_jsonl(std::move(source));
}

}  // namespace

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
      : seq_len(options.seq_len),
        source(open_source(options)),
        order(source->num_sequences(), options.data.shuffle, options.seed) {}

  // In order, so that of several bad rows every replica meets the first.
  StepShare share(DataPosition position, std::int64_t batch_size, BatchRange own) const {
    StepShare share{{own.count, seq_len, {}, {}, {}, {}, {}}, 0};
    TokenRows& rows = share.rows;
    rows.ids.resize(static_cast<std::size_t>(own.count * seq_len));
    rows.labels.resize(rows.ids.size());
    for (std::int64_t row = 0; row < batch_size; ++row) {
      const std::uint64_t index = order.at(position, row);
      const std::int64_t here = row - own.first;
      if (here < 0 || here >= own.count) {
        share.total_counted += source->counted_labels(index);
        continue;
      }
      const auto first = static_cast<std::size_t>(here * seq_len);
      source->read(index, &rows.ids[first], &rows.labels[first]);
      share.total_counted += rows.counted_labels(here, 1);
    }
    return share;
  }

  std::int64_t seq_len;
  std::unique_ptr<data::SequenceSource> source;
  data::SequenceOrder order;
};

TokenData::TokenData(TokenDataOptions options) : impl_(std::make_unique<Impl>(options)) {}
TokenData::~TokenData() = default;
TokenData::TokenData(TokenData&&) noexcept = default;
TokenData& TokenData::operator=(TokenData&&) noexcept = default;

std::int64_t TokenData::num_sequences() const {
  return static_cast<std::int64_t>(impl_->source->num_sequences());
}
std::int64_t TokenData::num_bytes() const {
  return static_cast<std::int64_t>(impl_->source->num_bytes());
}
std::optional<double> TokenData::unigram_entropy() const {
  return impl_->source->unigram_entropy();
}

TokenRows TokenData::read(DataPosition position, std::int64_t num_rows) const {
  return impl_->share(position, num_rows, {0, num_rows}).rows;
}

TokenRows TokenData::step_rows(std::int64_t step, std::int64_t batch_size,
                               const StepsDone& done) const {
  return step_share(step, batch_size, {0, batch_size}, done).rows;
}

StepShare TokenData::step_share(std::int64_t step, std::int64_t batch_size, BatchRange own,
                                const StepsDone& done) const {
  const DataPosition position = position_of_step(step, batch_size, done);
  StepShare share;
  try {
    share = impl_->share(position, batch_size, own);
  } catch (const Error& error) {
    throw Error(error.kind(), {.what = error.fact(),
                               .where = "step " + std::to_string(step) + ", " + error.where(),
                               .remedy = error.remedy()});
  }
  if (share.total_counted == 0)
    data::refuse_uncounted(*impl_->source, impl_->order, step, position, batch_size);
  return share;
}

void TokenData::require_counted_labels(std::int64_t steps, std::int64_t batch_size,
                                       const StepsDone& done) const {
  data::require_counted_labels(*impl_->source, impl_->order, steps, batch_size, done);
}

}  // namespace sluice
