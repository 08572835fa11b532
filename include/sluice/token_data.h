// A data set as an endless row of sequences, any of which can be computed by itself.
//
// Owns: the list of files, where each sequence lies in them, the order in which they are used,
//   cutting a batch into microbatches.
// Does not own: which files (run_config.h), what a step does with its batch (executor.h).
//
// Invariants:
//  1. batch() is a pure function of (files, options, step): every rank makes the same batch by
//     itself, and a resumed run continues where it was, with nothing to save.
//  2. Files are read where a batch needs them; memory does not grow with their size, but for the
//     list of files and 8 bytes a row of .jsonl. A StepBatch holds the tokens of its step.
//  3. Each epoch uses every sequence once. A batch may hold the end of one and the start of the
//  next.
// Thread-safety: const members may be called from any thread; ranks that are threads share one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/parts/step_batch.h"
#include "sluice/run_config.h"

namespace sluice {

// A keyed permutation of [0, size): at(i) in constant memory and time. With equal keys equal on
// every machine. A balanced Feistel network over the next even number of bits, walked until it
// lands inside (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).
class Permutation {
 public:
  // Precondition: size >= 1.
  Permutation(std::uint64_t size, std::uint64_t key);
  // Precondition: i < size.
  std::uint64_t at(std::uint64_t i) const;

 private:
  std::uint64_t size_, key_;
  int half_bits_;
};

struct TokenDataOptions {
  DataOptions data;
  std::int64_t seq_len = 0;
  std::int64_t vocab_size = 0;
  std::int64_t seed = 0;
  std::string model_directory;  // where tokenizer "auto" looks for a tokenizer.json; "" for none
};

// ids and labels: int64 [batch, seq_len]. Labels are aligned with ids (the loss shifts them); -100
// is not counted.
struct TokenBatch {
  at::Tensor ids, labels;
};

class TokenData {
 public:
  // Opens the files, finds the sequences and checks the first 16 MiB of rows.
  // Throws Error(kUsage): no files, formats mixed, a format or tokenizer that is not built.
  // Throws Error(kInput) naming file (and line): missing, empty, no whole sequence, malformed rows.
  explicit TokenData(TokenDataOptions options);
  ~TokenData();
  TokenData(TokenData&&) noexcept;
  TokenData& operator=(TokenData&&) noexcept;

  std::int64_t num_sequences() const;  // of one epoch, >= 1
  std::int64_t num_bytes() const;      // of all files

  // The sequences of step `step` (1-based): places [(step-1) * batch_size, step * batch_size) of
  // the endless row. Throws Error(kInput) "file:line" for a row that is malformed, an id outside
  // the vocabulary, a row longer than seq_len unless data.truncate.
  TokenBatch batch(std::int64_t step, std::int64_t batch_size) const;

  // As split_microbatches(batch(step, batch_size), microbatch_size, step), but 8 bytes a token are
  // held, and the tensors of a microbatch are made wherever it is used. Whatever is wrong with the
  // files is found here: throws what both throw, naming the step too, and Error(kInput) with the
  // step and its rows when the loss counts none of their labels.
  StepBatch step_batch(std::int64_t step, std::int64_t batch_size,
                       std::int64_t microbatch_size) const;

  // Refuses what leaves a step nothing to learn, as far as that is known from the rows that were
  // read: a file in which no label is counted, or a step up to `steps` whose rows have none (as far
  // as five million looks at a row reach).
  // Throws Error(kInput) naming the file, or the step and its rows as step_batch() does.
  void require_counted_labels(std::int64_t steps, std::int64_t batch_size) const;

  // Nats per token of a model that knows only how often each byte occurs: what a trained model has
  // to beat. Of text files only; of their first GiB.
  std::optional<double> unigram_entropy() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Consecutive rows in microbatches of microbatch_size (the last may be smaller), as the values
// "input_ids" and "labels"; counts are the labels that the shifted loss counts: not -100, and not
// in the first column. Throws Error(kUsage) for a microbatch_size below 1.
StepBatch split_microbatches(const TokenBatch& batch, std::int64_t microbatch_size,
                             std::int64_t step);

}  // namespace sluice
