// The contents of a file of training data, for people who are about to train on it.
//
// Owns: reading a file once and counting. Does not own: printing.
// Throws as training would: what it takes, training takes, given the same tokenizer and a model
// with a large enough vocabulary. Memory does not follow the size of the file, but for what finding
// rows and pieces takes (data.h). Thread-safety: a pure function of the files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sluice/data.h"

namespace sluice::data {

struct InspectOptions {
  DataFormat format = DataFormat::kAuto;
  std::string tokenizer;  // as data.tokenizer; "": none, so text has no tokens
  ChatTemplate chat_template = ChatTemplate::kAuto;
  std::int64_t first_rows = 3;  // to show
};

// The first tokens of a row or document.
struct FirstRow {
  std::string source;             // the text, or the line of the file, cut
  std::vector<std::int32_t> ids;  // some; none without a tokenizer
  std::string decoded;            // text of those ids; "" without a tokenizer
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
  std::vector<FirstRow> first;
  std::vector<std::string> warnings;  // as TokenData::warnings()
};

FileContents inspect_file(const std::string& path, const InspectOptions& options);

}  // namespace sluice::data
