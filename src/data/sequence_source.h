// Where the sequences of a data set come from: files cut into sequences, numbered in file order.
//
// Owns: finding sequence i in the files, reading it.
// Does not own: the order of use, batches (data.h).
// Labels that are not counted are kIgnoredLabel. Thread-safety: const members may be
// called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/parts/labels.h"

namespace sluice::data {

class SequenceSource {
 public:
  virtual ~SequenceSource() = default;
  virtual std::uint64_t num_sequences() const = 0;
  virtual std::uint64_t num_bytes() const = 0;
  // Writes seq_len ids and labels. Precondition: index < num_sequences().
  virtual void read(std::uint64_t index, std::int32_t* ids, std::int32_t* labels) const = 0;
  // The labels of it that a next-token loss counts; throws what read() would, but for text, of
  // which nothing is read. Precondition: index < num_sequences().
  virtual std::int64_t counted_labels(std::uint64_t index) const = 0;
  // Where the sequence lies, for messages: "file:line". Precondition: index < num_sequences().
  virtual std::string place(std::uint64_t index) const = 0;
  // Of the sequences that were read when the files were opened: those in which the loss counts no
  // label, ascending; and the first file that has no others, "" for none.
  virtual const std::vector<std::uint64_t>& uncounted() const = 0;
  virtual std::string uncounted_file() const = 0;
  // Nats per token; of text only.
  virtual std::optional<double> unigram_entropy() const { return std::nullopt; }
};

struct SourceOptions {
  std::vector<std::string> files;
  std::int64_t seq_len = 0;
  std::int64_t vocab_size = 0;
  bool truncate = false;
  // Why text may not become bytes: the model brings a tokenizer. "" if it may.
  std::string text_refusal;
};

// The bytes of all files in a row, cut every seq_len; the rest at the end is dropped.
std::unique_ptr<SequenceSource> open_text(SourceOptions options);
// One sequence a row; blank lines do not count.
std::unique_ptr<SequenceSource> open_jsonl(SourceOptions options);

}  // namespace sluice::data
