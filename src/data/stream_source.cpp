#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "data/file_content.h"
#include "data/token_stream.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

class StreamSource final : public SequenceSource {
 public:
  StreamSource(std::unique_ptr<TokenStream> stream, const SourceOptions& options)
      : stream_(std::move(stream)),
        seq_len_(static_cast<std::uint64_t>(options.seq_len)),
        pack_(options.pack) {
    if (num_sequences() > 0) return;
    throw Error(ErrorKind::kInput,
                {.what = formatted("the data has {} {}, not one whole sequence of {}",
                                   stream_->num_tokens(), stream_->unit(), seq_len_),
                 .where = options.files.front(),
                 .remedy = "add files to `data.files` or lower `seq_len`"});
  }

  std::uint64_t num_sequences() const override { return stream_->num_tokens() / seq_len_; }
  std::uint64_t num_bytes() const override { return stream_->num_bytes(); }

  Sequence read(std::uint64_t index) const override {
    Sequence row;
    row.ids.resize(seq_len_);
    const std::uint64_t first = index * seq_len_;
    stream_->read(first, seq_len_, row.ids.data());
    row.labels = row.ids;
    if (!pack_) return row;
    row.positions.resize(seq_len_);
    const std::vector<std::uint64_t> starts = stream_->document_starts(first, seq_len_);
    for (const std::uint64_t start : starts)
      row.labels[start - first] = static_cast<std::int32_t>(kIgnoredLabel);
    auto next = starts.begin();
    std::int32_t position = 0;
    for (std::size_t i = 0; i < seq_len_; ++i, ++position) {
      if (next != starts.end() && *next == first + i) {
        position = 0;
        ++next;
      }
      row.positions[i] = position;
    }
    return row;
  }

  // All labels count for the loss, except each document's first if sequences are packed.
  std::int64_t counted_labels(std::uint64_t index) const override {
    std::uint64_t counted = seq_len_ - 1;
    if (pack_ && counted > 0)
      counted -= stream_->document_starts(index * seq_len_ + 1, seq_len_ - 1).size();
    return static_cast<std::int64_t>(counted);
  }

  std::string place(std::uint64_t index) const override { return stream_->place(index * seq_len_); }
  // Always empty: a sequence of one-token documents does not occur in practice.
  const std::vector<std::uint64_t>& uncounted() const override { return uncounted_; }
  std::string uncounted_file() const override { return {}; }
  std::optional<double> unigram_entropy() const override { return stream_->unigram_entropy(); }

 private:
  std::unique_ptr<TokenStream> stream_;
  std::uint64_t seq_len_;
  bool pack_;
  std::vector<std::uint64_t> uncounted_;
};

}  // namespace

std::unique_ptr<SequenceSource> cut_stream(std::unique_ptr<TokenStream> stream,
                                           const SourceOptions& options) {
  return std::make_unique<StreamSource>(std::move(stream), options);
}

std::unique_ptr<SequenceSource> open_source(SourceOptions options) {
  for (const std::string& file : options.files) {
    require_content(file, options.format, options.is_format_set, "`data.files`");
    if (options.format == DataFormat::kText) require_text(file);
  }
  if (options.format == DataFormat::kJsonl) {
    return options.pack ? open_packed_jsonl(std::move(options)) : open_jsonl(std::move(options));
  }
  std::unique_ptr<TokenStream> stream;
  if (options.format != DataFormat::kText) {
    stream = open_token_files(options);
  } else {
    stream = options.tokens->is_bytes() ? open_bytes(options) : open_text_tokens(options);
  }
  return cut_stream(std::move(stream), options);
}

}  // namespace sluice::data
