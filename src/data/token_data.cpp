#include "sluice/token_data.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "config/data_format.h"
#include "data/sequence_source.h"
#include "layer/key_hash.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using detail::data_format;
using detail::DataFormat;

// So many rows are looked up before the first step, where rows without counted labels are known:
// about a second.
constexpr std::int64_t kForeseenRows = 5'000'000;
constexpr const char* kCountedRemedy =
    "-100 is not counted, nor is the first label of a row: give rows with other labels";

DataFormat common_format(const DataOptions& data) {
  if (data.files.empty())
    throw Error(ErrorKind::kUsage,
                {.what = "data.files names no file", .remedy = "set data.files"});
  const auto format_of = [&](const std::string& file) {
    return data_format(file, data.format, "data.files");
  };
  const DataFormat first = format_of(data.files.front());
  for (const std::string& file : data.files) {
    if (format_of(file) != first) {
      throw Error(ErrorKind::kUsage, {.what = "data.files mixes text and .jsonl",
                                      .where = data.files.front() + " and " + file,
                                      .remedy = "use one kind, or set data.format"});
    }
  }
  return first;
}

std::string text_refusal(const TokenDataOptions& options) {
  const std::string& tokenizer = options.data.tokenizer;
  if (tokenizer == "bytes") return {};
  if (tokenizer != "auto") return "data.tokenizer '" + tokenizer + "' is not built yet";
  const std::string file = options.model_directory + "/tokenizer.json";
  std::error_code ignored;
  if (options.model_directory.empty() || !std::filesystem::exists(file, ignored)) return {};
  return "using the model's tokenizer.json is not built yet";
}

// {first row, number of rows} of every microbatch.
std::vector<std::pair<std::int64_t, std::int64_t>> microbatch_rows(std::int64_t batch_size,
                                                                   std::int64_t microbatch_size) {
  if (microbatch_size < 1) {
    throw Error(ErrorKind::kUsage,
                {.what = "training.microbatch_size is " + std::to_string(microbatch_size),
                 .remedy = "set it to at least 1"});
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> result;
  for (std::int64_t row = 0; row < batch_size; row += microbatch_size)
    result.emplace_back(row, std::min(microbatch_size, batch_size - row));
  return result;
}

Values named(TokenBatch batch) {
  return {{"input_ids", std::move(batch.ids)}, {"labels", std::move(batch.labels)}};
}

}  // namespace

namespace data {

void require_byte_tokens(const SourceOptions& options, const std::string& where) {
  if (!options.text_refusal.empty()) {
    throw Error(ErrorKind::kUsage,
                {.what = options.text_refusal,
                 .where = where,
                 .remedy = "set data.tokenizer = \"bytes\", or use .jsonl rows with input_ids"});
  }
  if (options.vocab_size < kByteVocabulary) {
    throw Error(
        ErrorKind::kInput,
        {.what =
             "text becomes one token per byte, which needs a vocabulary of 256; the model has " +
             std::to_string(options.vocab_size),
         .where = where,
         .remedy = "use .jsonl rows with input_ids, or a model with vocab_size >= 256"});
  }
}

}  // namespace data

namespace {

// The sequences of one step, read once: half as large as the tensors of its microbatches would be.
class StepTokens {
 public:
  StepTokens(std::int64_t num_rows, std::int64_t seq_len)
      : seq_len_(seq_len),
        ids_(static_cast<std::size_t>(num_rows * seq_len)),
        labels_(ids_.size()) {}

  void put(std::int64_t row, const std::vector<std::int64_t>& ids,
           const std::vector<std::int64_t>& labels) {
    const auto narrow = [](std::int64_t token) { return static_cast<std::int32_t>(token); };
    std::transform(ids.begin(), ids.end(), ids_.begin() + row * seq_len_, narrow);
    std::transform(labels.begin(), labels.end(), labels_.begin() + row * seq_len_, narrow);
  }

  at::Tensor ids(std::int64_t row, std::int64_t rows) const { return tensor(ids_, row, rows); }
  at::Tensor labels(std::int64_t row, std::int64_t rows) const {
    return tensor(labels_, row, rows);
  }

 private:
  at::Tensor tensor(const std::vector<std::int32_t>& tokens, std::int64_t row,
                    std::int64_t rows) const {
    at::Tensor result = at::empty({rows, seq_len_}, at::kLong);
    std::copy_n(tokens.begin() + row * seq_len_, rows * seq_len_,
                result.mutable_data_ptr<std::int64_t>());
    return result;
  }

  std::int64_t seq_len_;
  std::vector<std::int32_t> ids_, labels_;  // a model with more ids does not exist
};

}  // namespace

struct TokenData::Impl {
  TokenDataOptions options;
  std::unique_ptr<data::SequenceSource> source;

  // The sequence at a place of the endless row.
  std::uint64_t sequence_at(std::uint64_t place) const {
    const std::uint64_t count = source->num_sequences();
    const std::uint64_t epoch = place / count, i = place % count;
    if (!options.data.shuffle) return i;
    return Permutation(count, absorb(absorb(0, static_cast<std::uint64_t>(options.seed)), epoch))
        .at(i);
  }

  TokenBatch read(std::int64_t first_place, std::int64_t rows) const {
    const std::int64_t length = options.seq_len;
    TokenBatch batch{at::empty({rows, length}, at::kLong), at::empty({rows, length}, at::kLong)};
    auto* ids = batch.ids.mutable_data_ptr<std::int64_t>();
    auto* labels = batch.labels.mutable_data_ptr<std::int64_t>();
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto place = static_cast<std::uint64_t>(first_place + row);
      source->read(sequence_at(place), ids + row * length, labels + row * length);
    }
    return batch;
  }

  std::shared_ptr<const StepTokens> read_step(std::int64_t step, std::int64_t batch_size) const {
    auto tokens = std::make_shared<StepTokens>(batch_size, options.seq_len);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(options.seq_len)), labels(ids.size());
    try {
      for (std::int64_t row = 0; row < batch_size; ++row) {
        const auto place = static_cast<std::uint64_t>((step - 1) * batch_size + row);
        source->read(sequence_at(place), ids.data(), labels.data());
        tokens->put(row, ids, labels);
      }
    } catch (const Error& error) {
      throw Error(error.kind(), {.what = error.fact(),
                                 .where = "step " + std::to_string(step) + ", " + error.where(),
                                 .remedy = error.remedy()});
    }
    return tokens;
  }

  // Known to be so from the rows that were read when the files were opened. looks: counts the rows
  // that were looked up.
  bool is_uncounted(std::int64_t step, std::int64_t batch_size, std::int64_t& looks) const {
    const std::vector<std::uint64_t>& uncounted = source->uncounted();
    for (std::int64_t row = 0; row < batch_size; ++row) {
      ++looks;
      const auto place = static_cast<std::uint64_t>((step - 1) * batch_size + row);
      if (!std::binary_search(uncounted.begin(), uncounted.end(), sequence_at(place))) return false;
    }
    return true;
  }

  [[noreturn]] void refuse_uncounted(std::int64_t step, std::int64_t batch_size) const {
    constexpr std::int64_t kNamedRows = 4;
    std::string where = "step " + std::to_string(step);
    for (std::int64_t row = 0; row < std::min(batch_size, kNamedRows); ++row) {
      const auto place = static_cast<std::uint64_t>((step - 1) * batch_size + row);
      where += ", " + source->place(sequence_at(place));
    }
    if (batch_size > kNamedRows)
      where += " and " + std::to_string(batch_size - kNamedRows) + " more";
    throw Error(ErrorKind::kInput,
                {.what = "no label of the step's batch is counted",
                 .where = where,
                 .remedy = std::string(kCountedRemedy) + ", or raise training.local_batch_size"});
  }
};

TokenData::TokenData(TokenDataOptions options) : impl_(std::make_unique<Impl>()) {
  const DataFormat format = common_format(options.data);
  data::SourceOptions source{options.data.files, options.seq_len, options.vocab_size,
                             options.data.truncate, text_refusal(options)};
  impl_->options = std::move(options);
  impl_->source = format == DataFormat::kText ? data::open_text(std::move(source))
                                              : data::open_jsonl(std::move(source));
}

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

TokenBatch TokenData::batch(std::int64_t step, std::int64_t batch_size) const {
  return impl_->read((step - 1) * batch_size, batch_size);
}

StepBatch TokenData::step_batch(std::int64_t step, std::int64_t batch_size,
                                std::int64_t microbatch_size) const {
  StepBatch result;
  result.step = step;
  const auto parts = microbatch_rows(batch_size, microbatch_size);
  const std::shared_ptr<const StepTokens> tokens = impl_->read_step(step, batch_size);
  for (const auto& [row, rows] : parts) {
    result.counts.push_back(count_tokens(tokens->labels(row, rows)));
    result.microbatches.push_back([tokens, row = row, rows = rows] {
      return named({tokens->ids(row, rows), tokens->labels(row, rows)});
    });
  }
  if (std::accumulate(result.counts.begin(), result.counts.end(), std::int64_t{0}) == 0)
    impl_->refuse_uncounted(step, batch_size);
  return result;
}

void TokenData::require_counted_labels(std::int64_t steps, std::int64_t batch_size) const {
  const std::string file = impl_->source->uncounted_file();
  if (!file.empty()) {
    throw Error(ErrorKind::kInput, {.what = "no row of the file has a label that is counted",
                                    .where = file,
                                    .remedy = kCountedRemedy});
  }
  // A batch that has none lies within two epochs, since one between them would be whole, and has
  // no other rows of either than those without.
  const auto uncounted = static_cast<std::int64_t>(impl_->source->uncounted().size());
  if (batch_size > 2 * uncounted) return;
  std::int64_t looks = 0;
  for (std::int64_t step = 1; step <= steps && looks < kForeseenRows; ++step) {
    if (impl_->is_uncounted(step, batch_size, looks)) impl_->refuse_uncounted(step, batch_size);
  }
}

StepBatch split_microbatches(const TokenBatch& batch, std::int64_t microbatch_size,
                             std::int64_t step) {
  StepBatch result;
  result.step = step;
  for (const auto& [row, rows] : microbatch_rows(batch.ids.size(0), microbatch_size)) {
    TokenBatch part{batch.ids.narrow(0, row, rows), batch.labels.narrow(0, row, rows)};
    result.counts.push_back(count_tokens(part.labels));
    result.microbatches.push_back(named(std::move(part)));
  }
  return result;
}

}  // namespace sluice
