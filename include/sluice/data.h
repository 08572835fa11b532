// A data set as an endless row of sequences of tokens, any of which can be computed by itself; or
// of rows of named numbers, of which the same holds.
//
// Owns: the list of files, where each sequence lies in them, the order in which they are used.
// Does not own: which files a pattern means, the tensors of a microbatch (causal_lm_batch), what a
// step does with its batch (pipeline.h).
//
// Invariants:
//  1. read() is a pure function of (files, options, position): every rank makes the same batch by
//     itself, and a run that goes on somewhere needs nothing but the position.
//  2. Files are read, and their text made tokens, where a batch needs them; memory does not grow
//     with their size, but for the list of files, 8 bytes a row of .jsonl and 16 bytes for every
//     8 KiB of text that a tokenizer reads. A TokenRows holds 8 bytes a token, and of a further
//     field 1 (truth values), 4 (floats of up to 32 bits) or 8 bytes a number.
//  3. Each epoch uses every sequence once. A batch may hold the end of one and the start of the
//     next.
// Thread-safety: const members may be called from any thread; ranks that are threads share one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace sluice {

// A label that is not counted (torch's and Hugging Face's ignore_index).
inline constexpr std::int64_t kIgnoredLabel = -100;

// The number of labels of one sequence, aligned with its ids, that are not kIgnoredLabel, apart
// from the first, which nothing predicts.
template <typename Label>
std::int64_t count_labels(std::span<const Label> labels) {
  std::int64_t count = 0;
  for (std::size_t i = 1; i < labels.size(); ++i) count += labels[i] != kIgnoredLabel;
  return count;
}

enum class DataFormat { kAuto, kText, kJsonl, kLlmc, kNanogpt, kMegatron };
enum class Padding { kSeqLen, kLongest };
enum class ChatTemplate { kAuto, kChatml, kLlama3, kMistral, kGemma };

// Which data, and how it becomes sequences.
struct DataOptions {
  // Paths, read in this order; in a configuration patterns, which are expanded before. All of one
  // format, but that of each weight may have another. Default: none, which is refused.
  std::vector<std::string> files;

  // What the files hold. Default: by the ending of each, where .bin beside an .idx is Megatron's,
  // with its magic number llm.c's, else nanoGPT's, and anything unknown is text, but for endings
  // that are certainly none.
  DataFormat format = DataFormat::kAuto;

  // true: every epoch has its own order, which the seed decides. false: file order, which begins
  // again at the end. Default: true.
  bool shuffle = true;

  // What makes tokens of text: "bytes", a token for every byte; "auto", the model's tokenizer.json,
  // bytes where it has none; or the path of a tokenizer.json or of a directory with one. Rows and
  // files of ids need none. Default: "auto".
  std::string tokenizer = "auto";

  // Length to which shorter rows are filled up with labels that are not counted: seq_len, or that
  // of the longest row of the microbatch, which computes less and makes messages of varying size.
  // Default: seq_len.
  Padding pad = Padding::kSeqLen;

  // Several documents in one sequence, each attending to itself only: fewer padded tokens, and no
  // text that sees another. Default: false.
  bool pack = false;

  // Rows of .jsonl that are longer than seq_len: true cuts their end off, false refuses them.
  // Default: false.
  bool truncate = false;

  // How the messages of a conversation become one text. Default: kAuto, as the special tokens of
  // the tokenizer, or the model's family, have it; refused where neither says it.
  ChatTemplate chat_template = ChatTemplate::kAuto;

  // Of the messages of a conversation only what the assistant says is counted. Default: false, all
  // of it.
  bool assistant_only_loss = false;

  // Share of each entry of `files` in the mixture: any positive numbers. Default: none, every file
  // as often as it is long.
  std::vector<double> weights = {};
};

// Among the sizes of a field: whatever the row has, or one for each token of the row.
inline constexpr std::int64_t kAnySize = -1, kRowTokens = -2;

// A further field of every row of .jsonl: a number, a truth value, or arrays of them of one shape.
struct FieldOption {
  std::string name;
  // The type of its elements: "bool", "uint8", "int8", "int16", "int32", "int64", "float16",
  // "bfloat16", "float32" or "float64".
  std::string dtype = "float32";
  // The sizes of one row, outermost first: numbers, kAnySize, kRowTokens. Empty: one number. Where
  // there are tokens, kRowTokens are filled up with 0 as the tokens are.
  std::vector<std::int64_t> sizes = {};
  friend bool operator==(const FieldOption&, const FieldOption&) = default;
};

// What the loss of a step is a mean over.
enum class CountOf { kLabels, kRows };

struct TokenDataOptions {
  DataOptions data;
  std::int64_t seq_len = 0;     // tokens a sequence, at least 1
  std::int64_t vocab_size = 0;  // of the model: ids are below it
  std::int64_t seed = 0;        // of the order
  std::string model_directory;  // where tokenizer "auto" looks for a tokenizer.json; "" for none
  // model_type of config.json, for chat_template "auto"; "": unknown.
  std::string model_family = {};
  // position_ids of rows are below it. None: no limit.
  std::optional<std::int64_t> max_positions = {};
  // How many of data.files are of each weight, in their order. Empty: one, or with no weights all
  // of them. Without weights the sequences of one entry follow those of the one before.
  std::vector<std::int64_t> files_per_entry = {};

  // What a model of further inputs asks of every row beside its tokens, or with tokens = false in
  // their place. Rows of .jsonl alone have fields.
  std::vector<FieldOption> fields = {};
  // false: a row is its fields alone; no tokenizer, seq_len, vocabulary or padding, and nothing in
  // it is a label that is counted.
  bool tokens = true;
  // What a step may not be without; kRows where tokens = false.
  CountOf count = CountOf::kLabels;
  // A row of tokens: may it hide tokens by an attention_mask, may it have position_ids of its
  // own?
  bool takes_mask = true, takes_positions = true;
  // Padding has attention_mask 0, not 1: for models whose tokens see those behind them.
  bool masks_padding = false;
  // Rows of a microbatch, whose fields have to be of the same sizes. 0: they are not compared.
  std::int64_t microbatch_size = 0;
};

// A place in the endless row of sequences, which is all that a run needs to go on from there.
struct DataPosition {
  std::int64_t sequence = 0;  // so many come before it
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

// What a run that goes on has behind it: so many steps, of whatever sizes, and where the next one
// begins.
struct StepsDone {
  std::int64_t steps = 0;
  DataPosition position;
  friend bool operator==(const StepsDone&, const StepsDone&) = default;
};

// Where a step (1-based, not one that is done) of so many sequences, of all replicas, begins, after
// steps of as many: a batch size or a number of replicas that changed neither repeats nor skips a
// sequence.
DataPosition position_of_step(std::int64_t step, std::int64_t batch_size,
                              const StepsDone& done = {});

// The numbers of a field: truth values as 0 and 1, integers of any size, floats of up to 32 bits,
// those of 64.
using FieldNumbers = std::variant<std::vector<std::uint8_t>, std::vector<std::int64_t>,
                                  std::vector<float>, std::vector<double>>;

// A field of one row.
struct FieldValue {
  std::vector<std::int64_t> sizes;  // outermost first
  FieldNumbers numbers;             // as many as their product, the last dimension innermost
  friend bool operator==(const FieldValue&, const FieldValue&) = default;
};

// The same of several, whose sizes may differ from microbatch to microbatch.
struct FieldRows {
  FieldOption field;
  std::vector<FieldValue> rows;
  friend bool operator==(const FieldRows&, const FieldRows&) = default;
};

// Consecutive sequences. Labels are aligned with ids (the loss shifts them); kIgnoredLabel
// is not counted. 32 bits hold the ids of any model.
struct TokenRows {
  std::int64_t num_rows = 0, seq_len = 0;  // seq_len 0: of rows that are fields alone
  std::vector<std::int32_t> ids, labels;   // [num_rows, seq_len], row after row

  // As transformers means them, both [num_rows, seq_len] or, as is usual, empty. A token sees no
  // other with mask 0. Without a mask, documents begin where a position is not one more than that
  // before it, and a token sees its own document only.
  std::vector<std::uint8_t> attention_mask = {};  // empty: all 1
  std::vector<std::int32_t> position_ids = {};    // empty: 0, 1, 2, ...

  // [num_rows], with Padding::kLongest: tokens of each row that are not padding on its right; a
  // microbatch is as long as the longest of its rows. Empty: all have seq_len.
  std::vector<std::int64_t> lengths = {};

  // In the order of TokenDataOptions::fields, num_rows values each; sizes that are kRowTokens are
  // seq_len.
  std::vector<FieldRows> fields = {};

  // The labels of `count` rows from `first` on that a next-token loss counts.
  std::int64_t counted_labels(std::int64_t first, std::int64_t count) const;
};

// Rows [first, first + count) of a batch.
struct BatchRange {
  std::int64_t first = 0, count = 0;
};

// What one replica needs of a step.
struct StepShare {
  TokenRows rows;                  // its own
  std::int64_t total_counted = 0;  // labels that the loss counts, in the whole batch; or its rows
};

// How much the loss counts in the rows of a microbatch, where that is neither labels nor rows.
// Called for those of all replicas, on the thread that reads them.
using MicrobatchCount = std::function<std::int64_t(const TokenRows&)>;

class TokenData {
 public:
  // Opens the files, finds the sequences and checks the first 16 MiB of rows; with data.pack all
  // rows. Text that a tokenizer reads is made tokens once, to know where its sequences are.
  // Throws Error(kUsage): no files, formats mixed, not as many weights as entries, conversations
  // for which no chat template is known; fields of other formats than .jsonl, or of rows that are
  // packed, and options of tokens where there are none.
  // Throws Error(kInput) naming file (and line): missing, empty, no whole sequence, malformed rows
  // or headers, a tokenizer that does not fit the vocabulary.
  explicit TokenData(TokenDataOptions options);
  ~TokenData();
  TokenData(TokenData&&) noexcept;
  TokenData& operator=(TokenData&&) noexcept;

  std::int64_t num_sequences() const;  // of one epoch, of all entries; >= 1
  std::int64_t num_bytes() const;      // of all files
  // What whoever starts a run should be told, as far as the rows that were read show it: a chat
  // template in the tokenizer's directory that is not the one that is taken.
  std::vector<std::string> warnings() const;

  // The num_rows sequences from `position` on; num_rows further on come those after them. Throws
  // Error(kInput) "file:line" for a row that is malformed, an id outside the vocabulary, a row
  // longer than seq_len unless data.truncate; and for a field that is missing or of other numbers
  // or sizes than were asked for, ragged, or of other sizes than in the first row of its
  // microbatch.
  TokenRows read(DataPosition position, std::int64_t num_rows) const;

  // The batch of a step, read(position_of_step(step, batch_size, done), batch_size): the only
  // reading of files that the step needs. Errors name the step too. Throws Error(kInput) with the
  // step and its rows when the loss counts none of their labels.
  TokenRows step_rows(std::int64_t step, std::int64_t batch_size, const StepsDone& done = {}) const;

  // The same of one replica: batch_size is that of all of them, `own` its rows. Rows of others are
  // read only for what cannot be known without it, the labels and errors of .jsonl, and one at a
  // time: the same error on every replica. Text that became shorter is noticed by those whose rows
  // it had. Throws as step_rows(). Precondition: `own` lies within the batch.
  StepShare step_share(std::int64_t step, std::int64_t batch_size, BatchRange own,
                       const StepsDone& done = {}) const;

  // The same of several replicas, each in its place of `own`: no row is read twice. count: what
  // total_counted is a sum of, where the model says it, of TokenDataOptions::microbatch_size rows
  // each.
  std::vector<StepShare> step_shares(std::int64_t step, std::int64_t batch_size,
                                     const std::vector<BatchRange>& own, const StepsDone& done = {},
                                     const MicrobatchCount& count = {}) const;

  // Labels are what a step may not be without (TokenDataOptions::count).
  bool counts_labels() const;

  // Refuses what leaves a step nothing to learn, as far as that is known from the rows that were
  // read: a file in which no label is counted, or a step up to `steps`, of those that are not done,
  // whose rows have none (as far as five million looks at a row reach). Nothing where rows are
  // counted.
  // Throws Error(kInput) naming the file, or the step and its rows as step_rows() does.
  void require_counted_labels(std::int64_t steps, std::int64_t batch_size,
                              const StepsDone& done = {}) const;

  // Nats per token of a model that knows only how often each byte occurs: what a trained model has
  // to beat. Of text files as bytes only; of their first GiB.
  std::optional<double> unigram_entropy() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
