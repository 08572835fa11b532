// Numbered sequences of a data set, in file order. Const members are thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text_tokens.h"
#include "sluice/data.h"

namespace sluice::data {

// One row before padding: 1 to seq_len tokens and optional numeric fields, or only fields.
struct Sequence {
  std::vector<std::int32_t> ids, labels;  // equal lengths
  std::vector<std::uint8_t> mask;         // attention mask, one per id; empty means all 1
  std::vector<std::int32_t> positions;    // position ids, one per id; empty means 0, 1, 2, ...
  // In a field's sizes, kRowTokens is replaced by the row's length before truncation.
  std::vector<FieldValue> fields = {};
};

class SequenceSource {
 public:
  virtual ~SequenceSource() = default;
  virtual std::uint64_t num_sequences() const = 0;
  virtual std::uint64_t num_bytes() const = 0;
  // Precondition of read(), counted_labels() and place(): index < num_sequences().
  virtual Sequence read(std::uint64_t index) const = 0;
  // Returns how many labels count for a next-token loss. May throw the errors of read().
  virtual std::int64_t counted_labels(std::uint64_t index) const = 0;
  // Returns "file:line" of the sequence for messages.
  virtual std::string place(std::uint64_t index) const = 0;
  // uncounted() lists, ascending, the sequences without labels that count for the loss, among those
  // read at startup. uncounted_file() returns the first file that has only such sequences, or "".
  virtual const std::vector<std::uint64_t>& uncounted() const = 0;
  virtual std::string uncounted_file() const = 0;
  // Entropy of single bytes in the data, in nats per token. Only byte streams compute it.
  virtual std::optional<double> unigram_entropy() const { return std::nullopt; }
};

struct SourceOptions {
  std::vector<std::string> files;
  DataFormat format = DataFormat::kText;  // never kAuto
  bool is_format_set = false;
  std::int64_t seq_len = 0;
  std::int64_t vocab_size = 0, num_labels = 0;  // see TokenDataOptions
  std::optional<std::int64_t> max_positions;
  bool truncate = false, pack = false, assistant_only_loss = false, append_eos = false;
  ChatTemplate chat_template = ChatTemplate::kAuto;
  std::string model_family;  // model_type; selects the chat format with ChatTemplate::kAuto
  std::shared_ptr<const TextTokens> tokens;
  std::vector<FieldOption> fields;
  bool has_tokens = true, takes_mask = true, takes_positions = true;
};

// Throws Error(kInput) if the files hold no sequence.
std::unique_ptr<SequenceSource> open_source(SourceOptions options);

std::unique_ptr<SequenceSource> open_jsonl(SourceOptions options);
// Returns sequences into which as many whole rows are packed as fit.
std::unique_ptr<SequenceSource> open_packed_jsonl(SourceOptions options);

}  // namespace sluice::data
