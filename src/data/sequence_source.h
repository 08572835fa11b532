// Numbered sequences of a data set, in file order. Const members are thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text_tokens.h"
#include "sluice/data.h"

namespace sluice::data {

// One row before padding: 1 to seq_len tokens with fields, or only fields.
struct Sequence {
  std::vector<std::int32_t> ids, labels;  // of equal length
  std::vector<std::uint8_t> mask;         // one per id; empty: all 1
  std::vector<std::int32_t> positions;    // one per id; empty: 0, 1, 2, ...
  // A size of kRowTokens is the row's length before truncation.
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
  // Returns "file:line" for messages.
  virtual std::string place(std::uint64_t index) const = 0;
  // Sequences read at startup that have no label for the loss, ascending. uncounted_file() returns
  // the first file with only such sequences, or "".
  virtual const std::vector<std::uint64_t>& uncounted() const = 0;
  virtual std::string uncounted_file() const = 0;
  // Nats per token. Only byte streams have it.
  virtual std::optional<double> unigram_entropy() const { return std::nullopt; }
};

struct SourceOptions {
  std::vector<std::string> files;
  DataFormat format = DataFormat::kText;  // never kAuto
  bool is_format_set = false;
  std::int64_t seq_len = 0;
  std::int64_t vocab_size = 0, num_labels = 0;
  std::optional<std::int64_t> max_positions;
  bool truncate = false, pack = false, append_eos = false;
  // Which messages the loss counts. `counts_prompts`: also prompts that have a completion.
  bool assistant_only_loss = false, last_only = false, counts_prompts = false;
  std::map<std::string, std::string> field_names;  // DataOptions::fields
  ChatTemplate chat_template = ChatTemplate::kAuto;
  std::string model_family;  // model_type, for ChatTemplate::kAuto
  std::shared_ptr<const TextTokens> tokens;
  std::vector<FieldOption> fields;
  bool has_tokens = true, takes_mask = true, takes_positions = true;
};

// Throws Error(kInput) if the files hold no sequence.
std::unique_ptr<SequenceSource> open_source(SourceOptions options);

std::unique_ptr<SequenceSource> open_jsonl(SourceOptions options);
// Packs as many whole rows into each sequence as fit.
std::unique_ptr<SequenceSource> open_packed_jsonl(SourceOptions options);

}  // namespace sluice::data
