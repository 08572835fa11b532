// Summarizes a file of training data. Throws the errors of training with a large enough vocabulary.
// Without a tokenizer, texts that yield no token are not detected.
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
  std::string tokenizer;  // as data.tokenizer; "" does not tokenize text
  ChatTemplate chat_template = ChatTemplate::kAuto;
  bool append_eos = false, assistant_only_loss = false;
  std::map<std::string, std::string> fields;  // as data.fields
  std::vector<std::string> train_on;          // as data.train_on
  std::int64_t first_rows = 3;
};

struct FirstRow {
  std::string source;             // beginning of the text, or "file:line" of the row
  std::vector<std::int32_t> ids;  // empty if there is no tokenizer
  std::vector<bool> counted;      // whether the loss counts each id (rows only)
  std::string decoded;
  // `decoded` with "[" and "]" around tokens that the loss counts, or "".
  std::string marked;
};

struct NumberField {
  std::uint64_t rows = 0;
  bool integers = true;
  double least = 0, greatest = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes;  // smallest and largest per dimension
};

struct FileContents {
  std::string path;
  DataFormat format = DataFormat::kText;
  std::string id_type;
  std::string shape;  // of .jsonl rows with tokens, such as "alpaca"
  std::uint64_t bytes = 0;
  std::uint64_t documents = 0;  // or number of rows in a .jsonl file
  // Numbers of tokens: all, counted by the loss, in the longest document. Empty without a
  // tokenizer.
  std::optional<std::uint64_t> tokens, counted, longest;
  std::optional<std::int32_t> largest_id;
  std::map<std::string, std::uint64_t> fields;  // rows that have each field
  std::map<std::string, NumberField> numbers;
  std::vector<FirstRow> first;
  std::vector<std::string> warnings;
};

FileContents inspect_file(const std::string& path, const InspectOptions& options);

}  // namespace sluice::data
