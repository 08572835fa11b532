// The contents of a file of training data, for people who are about to train on it.
//
// Owns: reading a file once and counting. Does not own: printing.
// Throws the errors of training, with or without a tokenizer, given a model with a large enough
// vocabulary. Without a tokenizer, texts that it would make no token of are not known. Memory does
// not follow the size of the file, but for what finding rows and pieces takes (data.h).
// Thread-safety: a pure function of the files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/data.h"

namespace sluice::data {

struct InspectOptions {
  DataFormat format = DataFormat::kAuto;
  std::string tokenizer;  // as data.tokenizer; "": none, so text has no tokens
  ChatTemplate chat_template = ChatTemplate::kAuto;
  bool append_eos = false, assistant_only_loss = false;  // as in DataOptions
  std::int64_t first_rows = 3;                           // to show
};

// The first tokens of a row or document.
struct FirstRow {
  std::string source;             // the text, or the line of the file, cut
  std::vector<std::int32_t> ids;  // some; none without a tokenizer
  std::vector<bool> counted;      // of rows: whether the loss counts each id
  std::string decoded;            // text of those ids; "" without a tokenizer
  // The same text with "[" and "]" around counted tokens, or "".
  std::string marked;
};

// The numbers in one field of rows: one a row, or nested lists.
struct NumberField {
  std::uint64_t rows = 0;                                    // rows that have it
  bool integers = true;                                      // all of them
  double least = 0, greatest = 0;                            // where there is a number
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes;  // least and greatest, outermost first
};

struct FileContents {
  std::string path;
  DataFormat format = DataFormat::kText;
  std::string id_type;  // type of the ids of token files: "uint16"
  std::uint64_t bytes = 0;
  std::uint64_t documents = 0;  // rows of .jsonl
  // Counts, where they are known: of ids, or with a tokenizer.
  std::optional<std::uint64_t> tokens, counted, longest;
  std::optional<std::int32_t> largest_id;
  std::map<std::string, std::uint64_t> fields;  // number of .jsonl rows that have each field
  // The fields of .jsonl rows that have numbers alone, no text or ids.
  std::map<std::string, NumberField> numbers;
  std::vector<FirstRow> first;
  std::vector<std::string> warnings;  // as TokenData::warnings()
};

FileContents inspect_file(const std::string& path, const InspectOptions& options);

}  // namespace sluice::data
