#include "config/data_format.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/text.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

// Every other ending is text: .txt, .md, .h, none.
constexpr std::array kNoText = {".gz",   ".zst", ".zip",         ".parquet", ".arrow", ".npy",
                                ".json", ".csv", ".safetensors", ".pt",      ".pt2"};

}  // namespace

DataFormat data_format(const std::string& file, const std::string& format,
                       const std::string& where) {
  if (format == "text") return DataFormat::kText;
  if (format == "jsonl") return DataFormat::kJsonl;
  if (format != "auto") {
    throw Error(ErrorKind::kUsage, {.what = "data.format = \"" + format + "\" is not built yet",
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

}  // namespace sluice::detail
