// Training sequences from .jsonl rows, tokenized when read.
#include <algorithm>

#include "base/format.h"
#include "data/jsonl_rows.h"
#include "data/row_tokens.h"
#include "data/sequence_source.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

// Up to this total size, all rows are checked before training.
constexpr std::uint64_t kCheckedBytes = std::uint64_t{16} << 20;

std::int64_t counted_in(const Sequence& row) {
  return count_labels(std::span<const std::int32_t>(row.labels));
}

// Returns a file whose rows were all checked and have no label that counts for the loss, or "".
std::string file_of_uncounted(const JsonlRows& rows, const std::vector<std::uint64_t>& uncounted,
                              std::uint64_t num_checked) {
  for (std::size_t i = 0; i < rows.num_files(); ++i) {
    const std::uint64_t first = rows.first_of(i), end = rows.first_of(i + 1);
    const auto in_file = std::lower_bound(uncounted.begin(), uncounted.end(), end) -
                         std::lower_bound(uncounted.begin(), uncounted.end(), first);
    if (end > first && end <= num_checked && static_cast<std::uint64_t>(in_file) == end - first)
      return rows.file(i);
  }
  return {};
}

void note_shapes(const JsonlRows& rows, const TextTokens& tokens) {
  for (const std::string& shape : rows.shapes()) tokens.note("rows", shape);
}

class JsonlSource final : public SequenceSource {
 public:
  explicit JsonlSource(const SourceOptions& options)
      : rows_(options.files, options.has_tokens, options.fields, options.field_names),
        tokens_(options) {
    note_shapes(rows_, *options.tokens);
    std::uint64_t bytes = 0;
    rows_.for_each(0, [&](std::uint64_t index, JsonlRow row, std::uint64_t json_bytes) {
      const bool is_uncounted = counted_in(tokens_.sequence(std::move(row))) == 0;
      if (options.has_tokens && is_uncounted) uncounted_.push_back(index);
      num_checked_ = index + 1;
      return (bytes += json_bytes) < kCheckedBytes;
    });
    tokens_.warn_of_unread();
  }

  std::uint64_t num_sequences() const override { return rows_.size(); }
  std::uint64_t num_bytes() const override { return rows_.num_bytes(); }
  Sequence read(std::uint64_t index) const override {
    return rows_.with_row(index, [&](JsonlRow row, std::uint64_t /*json_bytes*/) {
      return tokens_.sequence(std::move(row));
    });
  }
  std::int64_t counted_labels(std::uint64_t index) const override {
    return counted_in(read(index));
  }
  std::string place(std::uint64_t index) const override { return rows_.place(index); }
  const std::vector<std::uint64_t>& uncounted() const override { return uncounted_; }
  std::string uncounted_file() const override {
    return file_of_uncounted(rows_, uncounted_, num_checked_);
  }

 private:
  JsonlRows rows_;
  RowTokens tokens_;
  std::uint64_t num_checked_ = 0;
  std::vector<std::uint64_t> uncounted_;
};

// Packs as many whole rows into each sequence as fit, in file order. Reads all rows once for their
// lengths.
class PackedJsonlSource final : public SequenceSource {
 public:
  explicit PackedJsonlSource(const SourceOptions& options)
      : rows_(options.files, true, {}, options.field_names),
        tokens_(options),
        seq_len_(static_cast<std::size_t>(options.seq_len)) {
    note_shapes(rows_, *options.tokens);
    std::size_t filled = seq_len_;
    std::int64_t counted = 0;
    std::vector<std::uint64_t> uncounted_rows;
    const auto end_sequence = [&] {
      if (!first_rows_.empty() && counted == 0) uncounted_.push_back(first_rows_.size() - 1);
      counted = 0;
    };
    rows_.for_each(0, [&](std::uint64_t index, JsonlRow row, std::uint64_t /*json_bytes*/) {
      const Sequence document = as_document(tokens_.sequence(std::move(row)));
      if (document.ids.size() > seq_len_ - filled) {
        end_sequence();
        first_rows_.push_back(index);
        filled = 0;
      }
      filled += document.ids.size();
      const std::int64_t here = counted_in(document);
      if (here == 0) uncounted_rows.push_back(index);
      counted += here;
      return true;
    });
    end_sequence();
    tokens_.warn_of_unread();
    first_rows_.push_back(rows_.size());
    uncounted_file_ = file_of_uncounted(rows_, uncounted_rows, rows_.size());
  }

  std::uint64_t num_sequences() const override { return first_rows_.size() - 1; }
  std::uint64_t num_bytes() const override { return rows_.num_bytes(); }

  Sequence read(std::uint64_t index) const override {
    Sequence packed;
    const std::uint64_t end = first_rows_[index + 1];
    rows_.for_each(first_rows_[index], [&](std::uint64_t row_index, JsonlRow row, std::uint64_t) {
      const Sequence document = as_document(tokens_.sequence(std::move(row)));
      if (document.ids.size() > seq_len_ - packed.ids.size()) {
        throw Error(ErrorKind::kInput, {.what = "the row became longer since the file was opened",
                                        .remedy = "leave files alone while they are used"});
      }
      append(document.ids, packed.ids);
      append(document.labels, packed.labels);
      append(document.positions, packed.positions);
      return row_index + 1 < end;
    });
    return packed;
  }

  std::int64_t counted_labels(std::uint64_t index) const override {
    return counted_in(read(index));
  }
  std::string place(std::uint64_t index) const override { return rows_.place(first_rows_[index]); }
  const std::vector<std::uint64_t>& uncounted() const override { return uncounted_; }
  std::string uncounted_file() const override { return uncounted_file_; }

 private:
  // Makes the row a document: positions start at 0, and the first label does not count for the
  // loss.
  static Sequence as_document(Sequence row) {
    if (!row.mask.empty()) {
      throw Error(ErrorKind::kInput,
                  {.what = "'attention_mask' hides tokens, which packed rows cannot do",
                   .remedy = "leave the padding out of the row, or set `data.pack` = false"});
    }
    if (row.positions.empty()) {
      for (std::size_t i = 0; i < row.ids.size(); ++i)
        row.positions.push_back(static_cast<std::int32_t>(i));
    } else if (row.positions.front() != 0) {
      throw Error(ErrorKind::kInput,
                  {.what = formatted(
                       "'position_ids' start at {}, so the row would continue the previous one",
                       row.positions.front()),
                   .remedy = "let them start at 0, or set `data.pack` = false"});
    }
    row.labels.front() = static_cast<std::int32_t>(kIgnoredLabel);
    return row;
  }

  static void append(const std::vector<std::int32_t>& from, std::vector<std::int32_t>& to) {
    to.insert(to.end(), from.begin(), from.end());
  }

  JsonlRows rows_;
  RowTokens tokens_;
  std::size_t seq_len_;
  std::vector<std::uint64_t> first_rows_;  // first row of each sequence, then the number of rows
  std::vector<std::uint64_t> uncounted_;
  std::string uncounted_file_;
};

}  // namespace

std::unique_ptr<SequenceSource> open_jsonl(SourceOptions options) {
  return std::make_unique<JsonlSource>(options);
}

std::unique_ptr<SequenceSource> open_packed_jsonl(SourceOptions options) {
  return std::make_unique<PackedJsonlSource>(options);
}

}  // namespace sluice::data
