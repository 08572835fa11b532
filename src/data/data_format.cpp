#include "data/data_format.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/format.h"
#include "base/text.h"
#include "data/data_words.h"
#include "data/file_content.h"
#include "data/token_file.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

// Endings that are rejected. All others (.txt, .md, none) mean text.
constexpr std::array kNoText = {".gz",  ".zst", ".zip",  ".parquet", ".arrow",       ".feather",
                                ".npy", ".npz", ".csv",  ".tsv",     ".safetensors", ".pt",
                                ".pth", ".pt2", ".ckpt", ".pkl",     ".pickle"};
constexpr std::array kRows = {".jsonl", ".ndjson", ".jsonlines", ".jl", ".json"};

template <std::size_t N>
bool is_among(const std::array<const char*, N>& endings, const std::string& ending) {
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

std::string ending_of(const std::string& file) {
  return to_lower(std::filesystem::path(file).extension().string());
}

bool exists(const std::string& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

}  // namespace

std::string data_file_of(const std::string& file, DataFormat format) {
  const bool may_be_index = format == DataFormat::kAuto || format == DataFormat::kMegatron;
  if (!may_be_index || ending_of(file) != ".idx") return file;
  const std::string bin = bin_of_index(file);
  return exists(bin) ? bin : file;
}

std::vector<std::string> files_read_of(const std::string& file, DataFormat format) {
  if (format != DataFormat::kMegatron) return {file};
  return {file, index_of_bin(file)};
}

DataFormat format_of(const std::string& file, DataFormat format, const std::string& where) {
  if (format != DataFormat::kAuto) return format;
  const std::string ending = ending_of(file);
  const bool is_gzip = ending == ".gz";
  const std::string inner =
      is_gzip ? ending_of(std::filesystem::path(file).replace_extension().string()) : ending;
  if (is_among(kRows, inner)) return DataFormat::kJsonl;
  if (ending == ".bin") return format_of_token_file(file);
  if (ending == ".idx") {
    if (exists(bin_of_index(file))) return DataFormat::kMegatron;
    throw Error(ErrorKind::kInput,
                {.what = "'" + file + "' is the index of a .bin, which is not beside it",
                 .where = where,
                 .remedy = "put '" + bin_of_index(file) + "' there"});
  }
  if (is_among(kNoText, ending)) throw not_readable(file, first_bytes(file), where);
  return DataFormat::kText;
}

DataFormat common_format(const std::vector<std::string>& files, DataFormat format) {
  if (files.empty()) {
    throw Error(ErrorKind::kUsage,
                {.what = "`data.files` names no file", .remedy = "set `data.files`"});
  }
  const auto word = [](DataFormat of) { return detail::word_of(detail::words_of(of), of); };
  const DataFormat first = format_of(files.front(), format, "`data.files`");
  for (const std::string& file : files) {
    const DataFormat other = format_of(file, format, "`data.files`");
    if (other == first) continue;
    throw Error(
        ErrorKind::kUsage,
        {.what = formatted("`data.files` mixes {} and {}", word(first), word(other)),
         .where = files.front() + " and " + file,
         .remedy = "use one kind, give each its share in `data.weights`, or set `data.format`"});
  }
  return first;
}

}  // namespace sluice::data
