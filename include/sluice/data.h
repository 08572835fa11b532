// A data set: an endless list of sequences of tokens, or of rows of named numbers, each of which
// can be computed by itself.
//
// Invariants:
//  1. read() is a pure function of (files, options, position): every rank makes the same batch by
//     itself, and a run resumes from the position alone.
//  2. Files are read, and their text is tokenized, when a batch needs them. Memory does not grow
//     with their size, apart from the list of files, 8 bytes a row of .jsonl and 16 bytes for every
//     8 KiB of text that a tokenizer reads. A TokenRows holds 8 bytes a token, and 1 (truth
//     values), 4 (floats of up to 32 bits) or 8 bytes for each number of a further field.
//  3. Each epoch uses every sequence once. A batch may hold the end of one and the start of the
//     next.
// Thread-safety: const members may be called from any thread; ranks that are threads share a
// TokenData.
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

// The label that is not counted (torch's and Hugging Face's ignore_index).
inline constexpr std::int64_t kIgnoredLabel = -100;

// The number of labels of one sequence, aligned with its ids, that are not kIgnoredLabel; the first
// does not count, since nothing predicts it.
template <typename Label>
std::int64_t count_labels(std::span<const Label> labels) {
  std::int64_t count = 0;
  for (std::size_t i = 1; i < labels.size(); ++i) count += labels[i] != kIgnoredLabel;
  return count;
}

enum class DataFormat { kAuto, kText, kJsonl, kLlmc, kNanogpt, kMegatron };
enum class Padding { kSeqLen, kLongest };
enum class ChatTemplate { kAuto, kChatml, kLlama3, kMistral, kGemma };

// The files of a data set, and how they become sequences.
struct DataOptions {
  // Paths, read in this order; a configuration has patterns, which are expanded first. All have one
  // format; with weights, the files of each weight. Default: none, which is refused.
  std::vector<std::string> files;

  // The format of the files. Default: by the ending of each: .bin beside an .idx is Megatron's,
  // with llm.c's magic number llm.c's, else nanoGPT's; .jsonl, .ndjson, .jsonlines and .jl are
  // rows; any other ending is text, unless it is that of another format. Files whose content is not
  // of the format are refused: compressed and binary files, text that is not UTF-8, rows of JSON
  // that would be read as text (which kText allows).
  DataFormat format = DataFormat::kAuto;

  // true: every epoch has its own order, which the seed decides. false: file order, again from the
  // start at the end. Default: true.
  bool shuffle = true;

  // The tokenizer of text: "bytes", a token for every byte; "auto", the model's tokenizer.json, or
  // bytes with a warning where the model has no tokenizer of any form; or the path of a
  // tokenizer.json or of a directory with one. Files and rows of ids need none. Default: "auto".
  std::string tokenizer = "auto";

  // Length to which shorter rows are padded, with labels that are not counted: seq_len, or the
  // length of the longest row of the microbatch, which computes less and makes messages of varying
  // size. Default: seq_len.
  Padding pad = Padding::kSeqLen;

  // Several documents in one sequence, each attending to itself only: fewer padded tokens, and no
  // document sees another. Default: false.
  bool pack = false;

  // Rows of .jsonl that are longer than seq_len: true cuts their end off, false refuses them.
  // Default: false.
  bool truncate = false;

  // How the messages of a conversation become one text. Default: kAuto, from the special tokens of
  // the tokenizer or the model's family; refused where neither decides it.
  ChatTemplate chat_template = ChatTemplate::kAuto;

  // The tokenizer's end token behind every text that does not end with it: rows of `text`, and
  // files of text. Default: false, with a warning where texts have none.
  bool append_eos = false;

  // Only the assistant's messages of a conversation are counted. Default: false, all messages. A
  // message with "weight": 0 or "train": false is never counted.
  bool assistant_only_loss = false;

  // Share of each entry of `files` in the mixture: any positive numbers. Default: none, every file
  // in proportion to its length.
  std::vector<double> weights = {};
};

// Special sizes of a field: whatever the row has, or one element for each token of the row.
inline constexpr std::int64_t kAnySize = -1, kRowTokens = -2;

// A further field of every row of .jsonl: a number, a truth value, or arrays of them of one shape.
struct FieldOption {
  std::string name;
  // The type of its elements: "bool", "uint8", "int8", "int16", "int32", "int64", "float16",
  // "bfloat16", "float32" or "float64".
  std::string dtype = "float32";
  // The sizes in one row, outermost first: numbers, kAnySize, kRowTokens. Empty: one number. Beside
  // tokens, a dimension of kRowTokens is padded with 0 as the tokens are.
  std::vector<std::int64_t> sizes = {};
  // Limit of integers that are ids: from 0 up to below it, or the one that is `ignored`. 0: none.
  std::int64_t below = 0;
  std::optional<std::int64_t> ignored = {};
  // The first size is the number of items of a row, such as images. A microbatch then has the items
  // of all its rows, one after the other, without a dimension of rows.
  bool concatenated = false;
  friend bool operator==(const FieldOption&, const FieldOption&) = default;
};

// The unit that the loss of a step is a mean over.
enum class CountOf { kLabels, kRows };

struct TokenDataOptions {
  DataOptions data;
  std::int64_t seq_len = 0;     // tokens a sequence, at least 1
  std::int64_t vocab_size = 0;  // vocabulary of the model: ids are below it
  std::int64_t num_labels = 0;  // labels are below it; 0: below vocab_size
  std::int64_t seed = 0;        // seed of the order
  std::string model_directory;  // where tokenizer "auto" looks for a tokenizer.json; "" for none
  // The model_type of config.json, for chat_template "auto"; "": unknown.
  std::string model_family = {};
  // Limit that the position_ids of rows stay below. None: no limit.
  std::optional<std::int64_t> max_positions = {};
  // Number of data.files that belong to each weight, in their order. Empty: one each, or with no
  // weights all of them. Without weights the sequences of an entry follow those of the entry
  // before.
  std::vector<std::int64_t> files_per_entry = {};

  // Further inputs of the model that every row has beside its tokens, or with tokens = false in
  // their place. Only rows of .jsonl have fields.
  std::vector<FieldOption> fields = {};
  // false: a row is its fields alone, without tokenizer, seq_len, vocabulary, padding or counted
  // labels.
  bool tokens = true;
  // The unit of which every step must have some; kRows where tokens = false.
  CountOf count = CountOf::kLabels;
  // True if rows of tokens may have an attention_mask, or position_ids, of their own.
  bool takes_mask = true, takes_positions = true;
  // Padding has attention_mask 0, not 1: for models whose tokens see later ones.
  bool masks_padding = false;
  // Rows of a microbatch, whose fields must have the same sizes. 0: they are not compared.
  std::int64_t microbatch_size = 0;
};

// A place in the endless list of sequences: all that a run needs to resume there.
struct DataPosition {
  std::int64_t sequence = 0;  // number of sequences before it
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

// The past of a run that resumes: the number of its steps, of any sizes, and where the next one
// starts.
struct StepsDone {
  std::int64_t steps = 0;
  DataPosition position;
  friend bool operator==(const StepsDone&, const StepsDone&) = default;
};

// The position at which a step (1-based, after those done) starts when every step since `done`
// takes batch_size sequences, those of all replicas: changing the batch size or the number of
// replicas neither repeats nor skips a sequence.
DataPosition position_of_step(std::int64_t step, std::int64_t batch_size,
                              const StepsDone& done = {});

// The numbers of a field: truth values as 0 and 1, integers of any size, floats of up to 32 bits,
// floats of 64 bits.
using FieldNumbers = std::variant<std::vector<std::uint8_t>, std::vector<std::int64_t>,
                                  std::vector<float>, std::vector<double>>;

// A field of one row.
struct FieldValue {
  std::vector<std::int64_t> sizes;  // outermost first
  FieldNumbers numbers;             // as many as their product, the last dimension innermost
  friend bool operator==(const FieldValue&, const FieldValue&) = default;
};

// The same field of several rows, whose sizes may differ from microbatch to microbatch.
struct FieldRows {
  FieldOption field;
  std::vector<FieldValue> rows;
  friend bool operator==(const FieldRows&, const FieldRows&) = default;
};

// Consecutive sequences. Labels are aligned with ids (the loss shifts them); kIgnoredLabel is not
// counted. 32 bits hold the ids of any model.
struct TokenRows {
  std::int64_t num_rows = 0, seq_len = 0;  // seq_len 0: rows are fields alone
  std::vector<std::int32_t> ids, labels;   // [num_rows, seq_len], row after row

  // The inputs of transformers with these names, both [num_rows, seq_len] or, as is usual, empty. A
  // token sees no other token whose mask is 0. Without a mask, a document starts where a position
  // is not one more than the position before it, and a token sees its own document only.
  std::vector<std::uint8_t> attention_mask = {};  // empty: all 1
  std::vector<std::int32_t> position_ids = {};    // empty: 0, 1, 2, ...

  // [num_rows], with Padding::kLongest: the number of tokens of each row before the padding on its
  // right; a microbatch is as long as its longest row. Empty: all have seq_len.
  std::vector<std::int64_t> lengths = {};

  // The fields in the order of TokenDataOptions::fields, num_rows values each; sizes that are
  // kRowTokens are seq_len.
  std::vector<FieldRows> fields = {};

  // The number of labels that a next-token loss counts in `count` rows, from row `first` on.
  std::int64_t counted_labels(std::int64_t first, std::int64_t count) const;
};

// Rows [first, first + count) of a batch.
struct BatchRange {
  std::int64_t first = 0, count = 0;
};

// The share of one replica in the batch of a step.
struct StepShare {
  TokenRows rows;                  // rows of the replica
  std::int64_t total_counted = 0;  // labels (or rows) that the loss counts in the whole batch
};

// The number that the loss counts in the rows of a microbatch, where that is neither labels nor
// rows. Called for the microbatches of all replicas, on the thread that reads them.
using MicrobatchCount = std::function<std::int64_t(const TokenRows&)>;

class TokenData {
 public:
  // Opens the files, finds the sequences and checks the first 16 MiB of rows; with data.pack all
  // rows. Text that a tokenizer reads is tokenized once, to find its sequences.
  // Throws Error(kUsage): no files, mixed formats, a number of weights other than the number of
  // entries, conversations for which no chat template is known; fields of formats other than
  // .jsonl, or of packed rows, and options of tokens where there are none.
  // Throws Error(kInput) naming file (and line): missing, empty, no whole sequence, malformed rows
  // or headers, a tokenizer that does not fit the vocabulary.
  explicit TokenData(TokenDataOptions options);
  ~TokenData();
  TokenData(TokenData&&) noexcept;
  TokenData& operator=(TokenData&&) noexcept;

  std::int64_t num_sequences() const;  // sequences of one epoch, of all entries; >= 1
  std::int64_t num_bytes() const;      // size of all files
  // Warnings for the user who starts a run, from the rows that were read so far: a chat template in
  // the tokenizer's directory that is not the one in use, text as bytes for want of a tokenizer,
  // texts without an end token, fields of rows that are not read.
  std::vector<std::string> warnings() const;
  // What options of `data` that are "auto" became in those rows: {"data.tokenizer", "bytes"}.
  std::map<std::string, std::string> choices() const;

  // The num_rows sequences from `position` on. Throws Error(kInput) "file:line" for a malformed
  // row, an id outside the vocabulary, a row longer than seq_len unless data.truncate; and for a
  // field that is missing, ragged, of other numbers or sizes than its FieldOption, or of other
  // sizes than in the first row of its microbatch.
  TokenRows read(DataPosition position, std::int64_t num_rows) const;

  // The batch of a step, read(position_of_step(step, batch_size, done), batch_size): the only time
  // that the step reads files. Errors name the step too. Throws Error(kInput) with the step and its
  // rows when the loss counts none of their labels.
  TokenRows step_rows(std::int64_t step, std::int64_t batch_size, const StepsDone& done = {}) const;

  // The same for one replica: batch_size counts all replicas, `own` is its rows. Rows of other
  // replicas are read, one at a time, only for the labels and errors of .jsonl, so that every
  // replica throws the same error. Text that became shorter is noticed only by the replicas whose
  // rows it held. Throws as step_rows(). Precondition: `own` lies within the batch.
  StepShare step_share(std::int64_t step, std::int64_t batch_size, BatchRange own,
                       const StepsDone& done = {}) const;

  // The same for several replicas, in the order of `own`: no row is read twice. count: where the
  // model counts by itself, the function that total_counted sums, called with
  // TokenDataOptions::microbatch_size rows at a time.
  std::vector<StepShare> step_shares(std::int64_t step, std::int64_t batch_size,
                                     const std::vector<BatchRange>& own, const StepsDone& done = {},
                                     const MicrobatchCount& count = {}) const;

  // True if every step must count labels (TokenDataOptions::count).
  bool counts_labels() const;

  // Refuses data that leaves a step nothing to learn, as far as the rows read so far show it: a
  // file in which no label is counted, or a step after those done, up to `steps`, whose rows have
  // none (it looks at most at five million rows). Does nothing where rows are counted.
  // Throws Error(kInput) naming the file, or the step and its rows as step_rows() does.
  void require_counted_labels(std::int64_t steps, std::int64_t batch_size,
                              const StepsDone& done = {}) const;

  // Loss, in nats per token, of a model that knows only how often each byte occurs: a trained model
  // has to beat it. Known for text files as bytes only, from their first GiB.
  std::optional<double> unigram_entropy() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
