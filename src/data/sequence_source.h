// The sequences of a data set: files cut into sequences, numbered in file order.
//
// Owns: finding sequence i in the files, reading it.
// Does not own: the order of use, padding, batches (data.h).
// Labels that are not counted are kIgnoredLabel. Thread-safety: const members may be called from
// any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text_tokens.h"
#include "sluice/data.h"

namespace sluice::data {

// One row of a batch before it is padded: at least 1 token, at most seq_len; or, without tokens,
// fields alone.
struct Sequence {
  std::vector<std::int32_t> ids, labels;  // as many of both
  std::vector<std::uint8_t> mask;         // as many, or none: all 1
  std::vector<std::int32_t> positions;    // as many, or none: 0, 1, 2, ...
  // The values of SourceOptions::fields, as the row has them: kRowTokens are those of the row as it
  // was written.
  std::vector<FieldValue> fields = {};
};

class SequenceSource {
 public:
  virtual ~SequenceSource() = default;
  virtual std::uint64_t num_sequences() const = 0;
  virtual std::uint64_t num_bytes() const = 0;
  // Precondition: index < num_sequences().
  virtual Sequence read(std::uint64_t index) const = 0;
  // The labels of it that a next-token loss counts; throws what read() would, but where that can be
  // known without reading, as of text. Precondition: index < num_sequences().
  virtual std::int64_t counted_labels(std::uint64_t index) const = 0;
  // The place of the sequence, for messages: "file:line". Precondition: index < num_sequences().
  virtual std::string place(std::uint64_t index) const = 0;
  // Sequences, of those that were read when the files were opened, in which the loss counts no
  // label, ascending; and the first file that has no others, "" for none.
  virtual const std::vector<std::uint64_t>& uncounted() const = 0;
  virtual std::string uncounted_file() const = 0;
  // Nats per token; of text as bytes only.
  virtual std::optional<double> unigram_entropy() const { return std::nullopt; }
};

struct SourceOptions {
  std::vector<std::string> files;
  DataFormat format = DataFormat::kText;  // format of all files; not kAuto
  bool is_format_set = false;             // the user set data.format
  std::int64_t seq_len = 0;
  std::int64_t vocab_size = 0, num_labels = 0;  // as TokenDataOptions has them
  std::optional<std::int64_t> max_positions;
  bool truncate = false, pack = false, assistant_only_loss = false, append_eos = false;
  ChatTemplate chat_template = ChatTemplate::kAuto;
  std::string model_family;  // for chat_template kAuto
  std::shared_ptr<const TextTokens> tokens;
  // As TokenDataOptions has them.
  std::vector<FieldOption> fields;
  bool has_tokens = true, takes_mask = true, takes_positions = true;
};

// Throws Error(kInput) where the files have no sequence.
std::unique_ptr<SequenceSource> open_source(SourceOptions options);

// Reads .jsonl, one sequence a row; blank lines do not count.
std::unique_ptr<SequenceSource> open_jsonl(SourceOptions options);
// Reads .jsonl, as many whole rows a sequence as fit, in their order.
std::unique_ptr<SequenceSource> open_packed_jsonl(SourceOptions options);

}  // namespace sluice::data
