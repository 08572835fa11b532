// Properties that must hold for any input bytes: either an Error of kind kInput, or a value that
// keeps its invariants. The libFuzzer targets and the tests share them. Needs no torch.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "data/row_tokens.h"
#include "data/token_file.h"
#include "fuzz/require.h"
#include "sluice/error.h"
#include "support/temp_directory.h"

namespace sluice::test {

// Reads a .jsonl row as a sequence of at most 64 byte tokens. Returns whether that succeeded.
inline bool check_row_tokens(std::string_view json, ChatTemplate chat_template) {
  TokenDataOptions bytes;
  bytes.data.tokenizer = "bytes";
  bytes.vocab_size = 300;
  data::SourceOptions options;
  options.seq_len = 64;
  options.vocab_size = bytes.vocab_size;
  options.max_positions = 100;
  options.truncate = true;
  options.assistant_only_loss = json.size() % 2 == 0;
  options.chat_template = chat_template;
  options.tokens = std::make_shared<const data::TextTokens>(bytes);
  try {
    const data::Sequence row =
        data::RowTokens(options).sequence(data::parse_jsonl_row(json, "fuzz.jsonl:1"));
    const std::size_t size = row.ids.size();
    require(size >= 1 && size <= 64 && row.labels.size() == size);
    require(row.mask.empty() || row.mask.size() == size);
    require(row.positions.empty() || row.positions.size() == size);
    for (std::size_t i = 0; i < size; ++i) {
      require(row.ids[i] >= 0 && row.ids[i] < 300);
      require(row.labels[i] == -100 || (row.labels[i] >= 0 && row.labels[i] < 300));
      require(row.mask.empty() || row.mask[i] <= 1);
      require(row.positions.empty() || (row.positions[i] >= 0 && row.positions[i] < 100));
    }
  } catch (const Error& error) {
    const bool is_unknown_template =
        chat_template == ChatTemplate::kAuto && error.kind() == ErrorKind::kUsage;
    require(error.kind() == ErrorKind::kInput || is_unknown_template);
    return false;
  }
  return true;
}

// Reads a file of token ids. `index` is the content of Megatron's .idx file. Files are written to
// `folder`.
inline bool check_token_file(const TempDirectory& folder, DataFormat format, std::string_view bin,
                             std::string_view index) {
  const std::string path = folder / "fuzz.bin";
  write_file(path, std::string(bin));
  if (format == DataFormat::kMegatron) write_file(data::index_of_bin(path), std::string(index));
  try {
    const std::unique_ptr<data::TokenFile> file = data::open_token_file(path, format);
    const std::uint64_t tokens = file->num_tokens();
    require(tokens <= bin.size());
    std::vector<std::int32_t> ids(tokens);
    std::uint64_t before = 0;
    for (const std::uint64_t start : file->document_starts(0, tokens)) {
      require(start < tokens && (start > before || start == 0));
      before = start;
    }
    file->read(0, tokens, 1000, ids.data());
    for (const std::int32_t id : ids) require(id >= 0 && id < 1000);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kInput);
    return false;
  }
  return true;
}

}  // namespace sluice::test
