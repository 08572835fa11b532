// Rows are found by one scan for line ends when the files are opened, and parsed when a batch
// needs them.
#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "base/text.h"
#include "data/byte_tokens.h"
#include "data/jsonl_row.h"
#include "data/sequence_source.h"

namespace sluice::data {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
// A longer row is no sequence but a broken file, and would be held in memory as a whole.
constexpr std::uint64_t kMaxRowBytes = std::uint64_t{64} << 20;
// So many bytes of rows are checked before training starts.
constexpr std::uint64_t kCheckedBytes = std::uint64_t{16} << 20;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

Error row_error(const std::string& what, const std::string& where, const std::string& remedy) {
  return Error(ErrorKind::kInput, {.what = what, .where = where, .remedy = remedy});
}

Error too_long(const std::string& where) {
  return row_error("the row is longer than 64 MiB", where,
                   "a row is a line with a JSON object: is the file .jsonl?");
}

// Offsets of the rows that are not blank, then the file's size.
std::vector<std::uint64_t> find_rows(const File& file) {
  std::vector<std::uint64_t> rows;
  std::vector<char> block(kBlockBytes);
  std::uint64_t offset = 0, row = 0, lines = 1;
  bool has_text = false;
  while (const std::size_t count = file.read_some(block.data(), block.size(), offset)) {
    const char* const end = block.data() + count;
    for (const char* segment = block.data(); segment < end;) {
      const void* found = std::memchr(segment, '\n', static_cast<std::size_t>(end - segment));
      const char* const stop = found ? static_cast<const char*>(found) : end;
      has_text = has_text || !std::all_of(segment, stop, is_blank);
      if (!found) break;
      if (has_text) rows.push_back(row);
      has_text = false;
      ++lines;
      segment = stop + 1;
      row = offset + static_cast<std::uint64_t>(segment - block.data());
    }
    offset += count;
    if (offset - row > kMaxRowBytes) throw too_long(file.path() + ":" + std::to_string(lines));
  }
  if (has_text) rows.push_back(row);
  rows.push_back(offset);
  return rows;
}

std::uint64_t line_number(const File& file, std::uint64_t offset) {
  std::vector<char> block(kBlockBytes);
  std::uint64_t lines = 1;
  for (std::uint64_t done = 0; done < offset;) {
    const std::size_t count =
        file.read_some(block.data(), std::min<std::uint64_t>(block.size(), offset - done), done);
    if (count == 0) break;
    lines += static_cast<std::uint64_t>(std::count(block.data(), block.data() + count, '\n'));
    done += count;
  }
  return lines;
}

class JsonlSource final : public SequenceSource {
 public:
  explicit JsonlSource(SourceOptions options) : options_(std::move(options)) {
    for (const std::string& path : options_.files) {
      files_.push_back(find_rows(File::open(path)));
      first_.push_back(num_sequences_);
      num_sequences_ += files_.back().size() - 1;
      num_bytes_ += files_.back().back();
    }
    if (num_sequences_ == 0)
      throw Error(
          ErrorKind::kInput,
          {.what = "the data has no rows",
           .where = options_.files.front(),
           .remedy = "a row is a line with a JSON object: name files with rows in data.files"});
    check_first_rows();
  }

  std::uint64_t num_sequences() const override { return num_sequences_; }
  std::uint64_t num_bytes() const override { return num_bytes_; }
  void read(std::uint64_t index, std::int32_t* ids, std::int32_t* labels) const override {
    const auto length = static_cast<std::size_t>(options_.seq_len);
    const Row row = read_row(index);
    const auto count = static_cast<std::ptrdiff_t>(std::min(row.ids.size(), length));
    const auto narrow = [](std::int64_t token) { return static_cast<std::int32_t>(token); };
    std::fill(std::transform(row.ids.begin(), row.ids.begin() + count, ids, narrow), ids + length,
              0);
    std::fill(std::transform(row.labels.begin(), row.labels.begin() + count, labels, narrow),
              labels + length, narrow(kIgnoredLabel));
  }

  std::int64_t counted_labels(std::uint64_t index) const override {
    return counted_labels(read_row(index));
  }

  std::string place(std::uint64_t index) const override {
    const std::size_t file_index = file_of(index);
    const File file = File::open(options_.files[file_index]);
    const std::uint64_t offset = files_[file_index][index - first_[file_index]];
    return file.path() + ":" + std::to_string(line_number(file, offset));
  }

  const std::vector<std::uint64_t>& uncounted() const override { return uncounted_; }

  std::string uncounted_file() const override {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      const std::uint64_t rows = files_[i].size() - 1, end = first_[i] + rows;
      const auto uncounted = std::lower_bound(uncounted_.begin(), uncounted_.end(), end) -
                             std::lower_bound(uncounted_.begin(), uncounted_.end(), first_[i]);
      if (rows > 0 && end <= num_checked_ && static_cast<std::uint64_t>(uncounted) == rows)
        return options_.files[i];
    }
    return {};
  }

 private:
  struct Row {
    std::vector<std::int64_t> ids, labels;  // as many of both
    std::uint64_t json_bytes = 0;
  };

  void check_first_rows() {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < files_.size() && bytes < kCheckedBytes; ++i) {
      const File file = File::open(options_.files[i]);
      const std::uint64_t end = first_[i] + files_[i].size() - 1;
      for (; num_checked_ < end && bytes < kCheckedBytes; ++num_checked_) {
        const Row row = read_row(file, i, num_checked_);
        bytes += row.json_bytes;
        if (counted_labels(row) == 0) uncounted_.push_back(num_checked_);
      }
    }
  }

  std::int64_t counted_labels(const Row& row) const {
    const std::size_t length =
        std::min(row.labels.size(), static_cast<std::size_t>(options_.seq_len));
    return count_labels(std::span(row.labels).first(length));
  }

  // Of the files that begin at or before this row the last, which is not empty.
  std::size_t file_of(std::uint64_t index) const {
    return static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), index) -
                                    first_.begin()) -
           1;
  }

  Row read_row(std::uint64_t index) const {
    const std::size_t file_index = file_of(index);
    return read_row(File::open(options_.files[file_index]), file_index, index);
  }

  Row read_row(const File& file, std::size_t file_index, std::uint64_t index) const {
    const std::vector<std::uint64_t>& rows = files_[file_index];
    const auto row = static_cast<std::size_t>(index - first_[file_index]);
    std::string json(std::min(rows[row + 1] - rows[row], kMaxRowBytes + 1), '\0');
    file.read(json.data(), json.size(), rows[row]);
    json.resize(std::min(json.size(), json.find('\n')));
    try {
      if (json.size() > kMaxRowBytes) throw too_long("");
      JsonlRow parsed = checked(parse_jsonl_row(json, ""));
      return {std::move(*parsed.input_ids), std::move(*parsed.labels), json.size()};
    } catch (const Error& error) {
      // The line is counted only now: most rows are good.
      throw error.at(file.path() + ":" + std::to_string(line_number(file, rows[row])));
    }
  }

  [[noreturn]] static void refuse(const std::string& what, const std::string& remedy) {
    throw row_error(what, "", remedy);
  }

  // With ids and labels, whatever the row was given as.
  JsonlRow checked(JsonlRow row) const {
    if (!row.input_ids) {
      if (!row.text) refuse("the row has neither 'text' nor 'input_ids'", "give it one of them");
      if (row.labels) refuse("'labels' without 'input_ids'", "labels stand for ids one by one");
      require_byte_tokens(options_, "");
      row.input_ids.emplace();
      for (const char c : *row.text) row.input_ids->push_back(static_cast<unsigned char>(c));
    }
    if (row.input_ids->empty()) refuse("the row has no tokens", "remove the line");
    if (row.attention_mask) check_mask_values(*row.attention_mask, row.input_ids->size());
    if (!row.labels) {
      row.labels = row.input_ids;
      if (row.attention_mask) mask_labels(*row.attention_mask, *row.labels);
    }
    check(row);
    const auto length = static_cast<std::size_t>(options_.seq_len);
    if (row.input_ids->size() > length && !options_.truncate) {
      refuse("the row has " + std::to_string(row.input_ids->size()) +
                 " tokens, more than training.seq_len = " + std::to_string(length),
             "raise training.seq_len or set data.truncate = true");
    }
    return row;
  }

  static void check_mask_values(const std::vector<std::int64_t>& mask, std::size_t num_ids) {
    if (mask.size() != num_ids) {
      refuse("'attention_mask' has " + counted(static_cast<std::int64_t>(mask.size()), "value") +
                 " for " + counted(static_cast<std::int64_t>(num_ids), "token"),
             "give one for each token, or leave it out");
    }
    for (std::size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] == 0 || mask[i] == 1) continue;
      refuse("attention_mask[" + std::to_string(i) + "] = " + std::to_string(mask[i]) +
                 " is neither 0 nor 1",
             "1 stands for a token, 0 for padding");
    }
  }

  static void mask_labels(const std::vector<std::int64_t>& mask,
                          std::vector<std::int64_t>& labels) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (mask[i] == 0) labels[i] = kIgnoredLabel;
    }
  }

  void check(const JsonlRow& row) const {
    const std::vector<std::int64_t>&ids = *row.input_ids, &labels = *row.labels;
    if (labels.size() != ids.size()) {
      refuse(std::to_string(labels.size()) + " labels for " + std::to_string(ids.size()) +
                 " input_ids",
             "labels are aligned with ids; -100 is not counted");
    }
    const auto outside = [&](std::int64_t id) { return id < 0 || id >= options_.vocab_size; };
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (outside(ids[i])) refuse_id("input_ids", i, ids[i]);
      if (labels[i] != kIgnoredLabel && outside(labels[i])) refuse_id("labels", i, labels[i]);
    }
    if (row.attention_mask) check_mask(*row.attention_mask, labels);
  }

  [[noreturn]] void refuse_id(const char* field, std::size_t i, std::int64_t id) const {
    refuse(std::string(field) + "[" + std::to_string(i) + "] = " + std::to_string(id) +
               " is outside of the vocabulary of " + std::to_string(options_.vocab_size),
           "were the rows made with another tokenizer?");
  }

  // Of zeros and ones, as many as labels. Attention is causal: tokens after the last one that
  // counts change nothing, so a mask that only cuts those off needs no work. Any other would, and
  // is refused.
  static void check_mask(const std::vector<std::int64_t>& mask,
                         const std::vector<std::int64_t>& labels) {
    const auto padding = std::find(mask.begin(), mask.end(), 0);
    const bool is_right_padding =
        std::find(padding, mask.end(), 1) == mask.end() &&
        std::all_of(labels.begin() + (padding - mask.begin()), labels.end(),
                    [](std::int64_t label) { return label == kIgnoredLabel; });
    if (!is_right_padding) {
      refuse("'attention_mask' is more than padding on the right with labels -100",
             "leave it out, or pad on the right");
    }
  }

  SourceOptions options_;
  std::vector<std::vector<std::uint64_t>> files_;  // offsets of rows, then the size
  std::vector<std::uint64_t> first_;               // number of the first row of every file
  std::uint64_t num_sequences_ = 0, num_bytes_ = 0;
  std::uint64_t num_checked_ = 0;         // rows that were read at the start
  std::vector<std::uint64_t> uncounted_;  // of those
};

}  // namespace

std::unique_ptr<SequenceSource> open_jsonl(SourceOptions options) {
  return std::make_unique<JsonlSource>(std::move(options));
}

}  // namespace sluice::data
