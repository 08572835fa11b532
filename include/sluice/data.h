// Reads data sets as an endless list of token sequences or rows of numbers (docs/data.md).
//
//     sluice::TokenData data({.data = {.files = {"a.txt"}}, .seq_len = 512, .vocab_size = 256});
//     sluice::TokenRows rows = data.step_rows(1, 8);
//
// A batch depends only on files, options and position, so ranks read independently and a run
// resumes from its position alone. Each epoch uses every sequence once. A batch may span epochs.
// Const members are thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace sluice {

// The label of a token that the loss ignores (ignore_index of torch and Hugging Face).
inline constexpr std::int64_t kIgnoredLabel = -100;

// Counts the labels of a sequence that the loss uses. The first is never used, because no token
// predicts it.
template <typename Label>
std::int64_t count_labels(std::span<const Label> labels) {
  std::int64_t count = 0;
  for (std::size_t i = 1; i < labels.size(); ++i) count += labels[i] != kIgnoredLabel;
  return count;
}

enum class DataFormat { kAuto, kText, kJsonl, kLlmc, kNanogpt, kMegatron };
enum class Padding { kSeqLen, kLongest };
enum class ChatTemplate { kAuto, kChatml, kLlama3, kMistral, kGemma };

struct DataOptions {
  // Paths, read in this order. Patterns are not expanded. Files that share an entry of `weights`
  // must have one format.
  std::vector<std::string> files;
  // kAuto chooses by the file's ending (docs/data.md). Other content is refused.
  DataFormat format = DataFormat::kAuto;
  // Whether epochs are shuffled, instead of read in file order.
  bool shuffle = true;
  // "bytes", "auto" (the model's tokenizer.json, else bytes with a warning), or the path of a
  // tokenizer.json or its directory.
  std::string tokenizer = "auto";
  // kSeqLen pads rows to seq_len, kLongest to the longest row of the microbatch.
  Padding pad = Padding::kSeqLen;
  // Whether a sequence may hold several documents. Tokens attend only to their own document.
  bool pack = false;
  // Whether .jsonl rows longer than seq_len are cut instead of refused.
  bool truncate = false;
  // kAuto chooses the template by the tokenizer's special tokens or the model's family.
  ChatTemplate chat_template = ChatTemplate::kAuto;
  // Whether every text ends with the tokenizer's end token.
  bool append_eos = false;
  // The same as train_on = {"assistant"}.
  bool assistant_only_loss = false;
  // Sampling weight (above 0) of each of TokenDataOptions::files_per_entry. Empty: its length.
  std::vector<double> weights = {};
  // Other names of fields: {"instruction", "question"} reads "question" as the instruction.
  std::map<std::string, std::string> fields = {};
  // Messages that count: {"assistant"}, its {"last"}, {"all"}. Empty: all, but not their prompts.
  std::vector<std::string> train_on = {};
};

// Special sizes of a field. kRowTokens: one element per token of the row.
inline constexpr std::int64_t kAnySize = -1, kRowTokens = -2;

// An additional field of .jsonl rows: a number, a boolean, or an array.
struct FieldOption {
  std::string name;
  // "bool", "uint8", "int8" to "int64", "float16", "bfloat16", "float32" or "float64".
  std::string dtype = "float32";
  // Sizes of the field in one row. May be kAnySize or kRowTokens (padded with 0). Empty: one
  // number.
  std::vector<std::int64_t> sizes = {};
  // Integers must be in [0, below) or equal `ignored`. 0: no limit.
  std::int64_t below = 0;
  std::optional<std::int64_t> ignored = {};
  // Whether a microbatch concatenates, instead of stacks, its rows. Dimension 0 then counts items
  // such as images.
  bool concatenated = false;
  friend bool operator==(const FieldOption&, const FieldOption&) = default;
};

// The unit over which a step's loss is averaged.
enum class CountOf { kLabels, kRows };

enum class DataPart { kTraining, kHeldOut };  // rows are held out for validation

struct TokenDataOptions {
  DataOptions data;
  // Labels of the rows after these epochs do not count, so that the last step may have fewer rows.
  // Losses that count rows take them from the next epoch. 0: epochs without end.
  double epochs = 0;
  // Share of the rows to hold out (below 1), or their number. The seed and the rows' content choose
  // them, so equal rows are held out together.
  double held_out = 0;
  DataPart part = DataPart::kTraining;
  std::int64_t seq_len = 0;  // at least 1
  std::int64_t vocab_size = 0;
  std::int64_t num_labels = 0;  // 0: vocab_size
  std::int64_t seed = 0;
  std::string model_directory;                     // for tokenizer "auto"
  std::string model_family = {};                   // model_type of config.json, for chat_template
  std::optional<std::int64_t> max_positions = {};  // exclusive limit of position_ids
  // Number of data.files in each entry of data.weights. Empty: one per entry if there are weights,
  // else one entry with all files.
  std::vector<std::int64_t> files_per_entry = {};
  std::vector<FieldOption> fields = {};  // additional model inputs, read from .jsonl rows
  bool tokens = true;                    // false: rows have only `fields`
  CountOf count = CountOf::kLabels;      // a step in which nothing counts is refused
  bool takes_mask = true, takes_positions = true;
  // Whether padding has attention_mask 0, as for models whose tokens see later ones.
  bool masks_padding = false;
  // Every group of microbatch_size rows must have fields of equal sizes. 0: not checked.
  std::int64_t microbatch_size = 0;
};

struct DataPosition {
  std::int64_t sequence = 0;  // sequences before this position
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

// The steps before a run resumed, and the position of its next step.
struct StepsDone {
  std::int64_t steps = 0;
  DataPosition position;
  friend bool operator==(const StepsDone&, const StepsDone&) = default;
};

using FieldNumbers = std::variant<std::vector<std::uint8_t>, std::vector<std::int64_t>,
                                  std::vector<float>, std::vector<double>>;

struct FieldValue {
  std::vector<std::int64_t> sizes;
  FieldNumbers numbers;  // row-major
  friend bool operator==(const FieldValue&, const FieldValue&) = default;
};

struct FieldRows {
  FieldOption field;
  std::vector<FieldValue> rows;
  friend bool operator==(const FieldRows&, const FieldRows&) = default;
};

// Consecutive sequences. Labels are aligned with ids; the loss shifts them.
struct TokenRows {
  std::int64_t num_rows = 0, seq_len = 0;  // seq_len 0: rows have only fields
  std::vector<std::int32_t> ids, labels;   // [num_rows, seq_len]
  // [num_rows, seq_len]. Tokens do not attend to other tokens whose mask is 0. Without a mask, a
  // document starts where a position is not the previous one plus 1, and tokens attend only to
  // their document.
  std::vector<std::uint8_t> attention_mask = {};  // empty: all 1
  std::vector<std::int32_t> position_ids = {};    // empty: 0, 1, 2, ...
  std::vector<std::int64_t> lengths = {};  // [num_rows] tokens before the padding; empty: seq_len
  std::vector<FieldRows> fields = {};      // in the order of TokenDataOptions::fields
  std::int64_t counted_labels(std::int64_t first, std::int64_t count) const;
};

struct BatchRange {
  std::int64_t first = 0, count = 0;
};

struct StepShare {
  TokenRows rows;
  std::int64_t total_counted = 0;  // labels (or rows) that count, over all replicas
};

// Returns the count of a microbatch, for losses that average over neither labels nor rows. Runs on
// the data thread.
using MicrobatchCount = std::function<std::int64_t(const TokenRows&)>;

class TokenData {
 public:
  // Checks the first 16 MiB of rows (all rows with data.pack). Tokenizes text once to find
  // sequences. Throws Error(kUsage) for contradictory options, and Error(kInput) with file and line
  // for files that are missing, empty, malformed, too short, or outside the vocabulary.
  explicit TokenData(TokenDataOptions options);
  ~TokenData();
  TokenData(TokenData&&) noexcept;
  TokenData& operator=(TokenData&&) noexcept;

  std::int64_t num_sequences() const;  // in one epoch, at least 1
  // Returns the steps of TokenDataOptions::epochs, including those of `done`. 0: without end.
  std::int64_t num_steps(std::int64_t batch_size, const StepsDone& done = {}) const;
  // Returns where a step starts. The step after the last one starts at the end of the epochs, even
  // if the last batch was only partly filled.
  DataPosition position_of(std::int64_t step, std::int64_t batch_size,
                           const StepsDone& done = {}) const;
  std::int64_t num_bytes() const;
  // Warnings from the rows read so far, such as texts without an end token.
  std::vector<std::string> warnings() const;
  // Values chosen for "auto" options, {"data.tokenizer", "bytes"}, and shapes, {"rows", "alpaca"}.
  std::map<std::string, std::string> choices() const;

  // Throws Error(kInput) "file:line" for a malformed row, an unknown id, a row above seq_len
  // (unless data.truncate), or a field that is missing or contradicts its FieldOption or its
  // microbatch's first row.
  TokenRows read(DataPosition position, std::int64_t num_rows) const;

  // Reads the rows of a step. Throws like read(), and Error(kInput) if the step has no counted
  // labels.
  TokenRows step_rows(std::int64_t step, std::int64_t batch_size, const StepsDone& done = {}) const;

  // Reads one replica's rows `own` of a step. batch_size includes all replicas. All replicas throw
  // the same errors, because each checks the labels of all .jsonl rows.
  StepShare step_share(std::int64_t step, std::int64_t batch_size, BatchRange own,
                       const StepsDone& done = {}) const;

  // Reads the rows of several replicas, one range of `own` each. `count` computes total_counted
  // from TokenDataOptions::microbatch_size rows at a time.
  std::vector<StepShare> step_shares(std::int64_t step, std::int64_t batch_size,
                                     const std::vector<BatchRange>& own, const StepsDone& done = {},
                                     const MicrobatchCount& count = {}) const;

  bool counts_labels() const;

  // Throws Error(kInput) for a file or a step (after `done`, up to `steps`) without counted labels.
  // Checks only rows read so far, at most five million.
  void require_counted_labels(std::int64_t steps, std::int64_t batch_size,
                              const StepsDone& done = {}) const;

  // Returns the loss (nats per token) of predicting bytes by their frequencies in the first GiB of
  // text. A trained model must beat this loss. None unless the tokens are bytes of text.
  std::optional<double> unigram_entropy() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
