#include "data/data_format.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/text.h"
#include "data/data_words.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

// Every other ending is text: .txt, .md, .h, none.
constexpr std::array kNoText = {".gz",   ".zst", ".zip",         ".parquet", ".arrow", ".npy",
                                ".json", ".csv", ".safetensors", ".pt",      ".pt2"};

}  // namespace

DataFormat format_of(const std::string& file, DataFormat format, const std::string& where) {
  if (format == DataFormat::kText || format == DataFormat::kJsonl) return format;
  if (format != DataFormat::kAuto) {
    throw Error(ErrorKind::kUsage,
                {.what = "data.format = \"" + detail::word_of(detail::words_of(format), format) +
                         "\" is not built yet",
                 .where = where,
                 .remedy = "use text or .jsonl files"});
  }
  const std::string ending = to_lower(std::filesystem::path(file).extension().string());
  if (ending == ".jsonl") return DataFormat::kJsonl;
  if (ending == ".bin" || ending == ".idx") {
    throw Error(ErrorKind::kUsage,
                {.what = "data.files: '" + file + "' is a token file, not built yet",
                 .where = where,
                 .remedy = "give .txt or .jsonl files, or data.format = \"text\""});
  }
  if (std::find(kNoText.begin(), kNoText.end(), ending) != kNoText.end()) {
    throw Error(ErrorKind::kUsage,
                {.what = "data.files: '" + file + "' is no text by its ending",
                 .where = where,
                 .remedy = "write data.format = \"text\" to train on its bytes all the same"});
  }
  return DataFormat::kText;
}

DataFormat common_format(const DataOptions& options) {
  if (options.files.empty()) {
    throw Error(ErrorKind::kUsage,
                {.what = "data.files names no file", .remedy = "set data.files"});
  }
  const auto format = [&](const std::string& file) {
    return format_of(file, options.format, "data.files");
  };
  const DataFormat first = format(options.files.front());
  for (const std::string& file : options.files) {
    if (format(file) != first) {
      throw Error(ErrorKind::kUsage, {.what = "data.files mixes text and .jsonl",
                                      .where = options.files.front() + " and " + file,
                                      .remedy = "use one kind, or set data.format"});
    }
  }
  return first;
}

}  // namespace sluice::data
