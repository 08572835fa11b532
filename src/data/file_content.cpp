#include "data/file_content.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/json_events.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "data/gzip_file.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data {
namespace {

using namespace std::string_view_literals;

constexpr const char* kOtherFiles = "name files of UTF-8 text, of .jsonl rows or of token ids";

// A binary format that cannot be training data. `remedy` has FILE in place of the file name. `rows`
// is passed to conversion_to_rows().
struct BinaryFormat {
  std::string_view name, remedy = {}, rows = {};
};

struct Magic {
  BinaryFormat format;
  std::size_t offset;
  std::array<std::string_view, 3> starts;
};
constexpr Magic kMagics[] = {
    {{"compressed by gzip", "unpack it: gzip -dk FILE"}, 0, {"\x1f\x8b"sv}},
    {{"compressed by compress", "unpack it: gzip -dk FILE"}, 0, {"\x1f\x9d"sv}},
    {{"compressed by xz", "unpack it: xz -dk FILE"},
     0,
     {"\xfd"
      "7zXZ\0"sv}},
    {{"compressed by lzip", "unpack it: lzip -dk FILE"}, 0, {"LZIP\1"sv}},
    {{"compressed by lzma", "unpack it: xz -dk FILE"}, 0, {"\x5d\0\0"sv}},
    {{"compressed by zstd", "unpack it: zstd -dk FILE"}, 0, {"\x28\xb5\x2f\xfd"sv}},
    {{"compressed by lz4", "unpack it: lz4 -dk FILE"},
     0,
     {"\x04\x22\x4d\x18"sv, "\x02\x21\x4c\x18"sv}},
    {{"compressed by snappy"}, 0, {"\xff\x06\0\0sNaPpY"sv}},
    {{"a zip archive", "unpack it: unzip FILE"}, 0, {"PK\3\4"sv, "PK\5\6"sv, "PK\7\x08"sv}},
    {{"a 7z archive", "unpack it: 7z x FILE"}, 0, {"7z\xbc\xaf\x27\x1c"sv}},
    {{"a rar archive", "unpack it: unrar x FILE"}, 0, {"Rar!\x1a\7"sv}},
    {{"a tar archive", "unpack it: tar xf FILE"}, 257, {"ustar\0"sv, "ustar  \0"sv}},
    {{"an ar archive", "unpack it: ar x FILE"}, 0, {"!<arch>\n"sv}},
    {{"a Parquet file", "", "parquet"}, 0, {"PAR1"sv}},
    {{"an Arrow file", "", "feather"}, 0, {"ARROW1"sv}},
    {{"a Feather file", "", "feather"}, 0, {"FEA1"sv}},
    {{"an Arrow stream", "", "arrow"}, 0, {"\xff\xff\xff\xff"sv}},
    {{"an Avro file"}, 0, {"Obj\1"sv}},
    {{"a Hadoop sequence file"}, 0, {"SEQ\6"sv}},
    {{"a NumPy array"}, 0, {"\x93NUMPY"sv}},
    {{"an HDF5 file"}, 0, {"\x89HDF\r\n\x1a\n"sv}},
    {{"a NetCDF file"}, 0, {"CDF\1"sv, "CDF\2"sv}},
    {{"an SQLite database"}, 0, {"SQLite format 3\0"sv}},
    {{"the index of a Megatron data set"}, 0, {"MMIDIDX\0\0"sv}},
    {{"a GGUF model"}, 0, {"GGUF\1\0"sv, "GGUF\2\0"sv, "GGUF\3\0"sv}},
    {{"a program"},
     0,
     {"\x7f"
      "ELF"sv}},
    {{"a PDF document", "convert it to text: pdftotext FILE"}, 0, {"%PDF-"sv}},
    {{"a PostScript document", "convert it to text: ps2ascii FILE"}, 0, {"%!PS"sv}},
    {{"an RTF document"}, 0, {"{\\rtf"sv}},
    {{"an old Office document"}, 0, {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv}},
    {{"a PNG picture"}, 0, {"\x89PNG\r\n\x1a\n"sv}},
    {{"a JPEG picture"}, 0, {"\xff\xd8\xff"sv}},
    {{"a GIF picture"}, 0, {"GIF87a"sv, "GIF89a"sv}},
    {{"a TIFF picture"}, 0, {"II*\0"sv, "MM\0*"sv}},
    {{"a WAV file"}, 8, {"WAVEfmt "sv}},
    {{"an AVI file"}, 8, {"AVI LIST"sv}},
    {{"a WebP picture"}, 8, {"WEBPVP8"sv}},
    {{"an Ogg file"}, 0, {"OggS\0"sv}},
    {{"a FLAC file"}, 0, {"fLaC\0"sv}},
    {{"an MP3 file"}, 0, {"ID3\2\0"sv, "ID3\3\0"sv, "ID3\4\0"sv}},
    {{"an MP4 file"}, 4, {"ftyp"sv}},
    {{"a Matroska file"}, 0, {"\x1a\x45\xdf\xa3"sv}},
    {{"text in UTF-32", "convert it: iconv -f UTF-32 -t UTF-8 FILE > NEW.txt"},
     0,
     {"\xff\xfe\0\0"sv, "\0\0\xfe\xff"sv}},
    {{"text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW.txt"},
     0,
     {"\xff\xfe"sv, "\xfe\xff"sv}}};
constexpr BinaryFormat kUtf16Le = {"text in UTF-16",
                                   "convert it: iconv -f UTF-16LE -t UTF-8 FILE > NEW.txt"};
constexpr BinaryFormat kUtf16Be = {"text in UTF-16",
                                   "convert it: iconv -f UTF-16BE -t UTF-8 FILE > NEW.txt"};
constexpr BinaryFormat kBzip2 = {"compressed by bzip2", "unpack it: bzip2 -dk FILE"};
constexpr BinaryFormat kPickle = {"a pickle of Python"};
constexpr BinaryFormat kSafetensors = {"a safetensors file"};
constexpr BinaryFormat kOrc = {"an ORC file"};

std::size_t tenths(std::size_t count, std::size_t total) { return total ? 10 * count / total : 0; }

// Detects UTF-16 without byte order mark: every second byte of ASCII text is zero.
const BinaryFormat* utf16_format(std::string_view bytes) {
  std::size_t even = 0, odd = 0;
  const std::size_t pairs = bytes.size() / 2;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    even += bytes[i] == '\0' && bytes[i + 1] != '\0';
    odd += bytes[i] != '\0' && bytes[i + 1] == '\0';
  }
  if (pairs < 4) return nullptr;
  if (tenths(odd, pairs) >= 7 && even == 0) return &kUtf16Le;
  if (tenths(even, pairs) >= 7 && odd == 0) return &kUtf16Be;
  return nullptr;
}

struct FoundMagic {
  const BinaryFormat* format = nullptr;
  std::size_t num_bytes = 0;
};

FoundMagic find_magic(std::string_view bytes) {
  for (const Magic& magic : kMagics) {
    if (bytes.size() < magic.offset) continue;
    for (const std::string_view start : magic.starts) {
      if (!start.empty() && bytes.substr(magic.offset).starts_with(start))
        return {&magic.format, start.size()};
    }
  }
  return {};
}

bool is_pickle(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

const BinaryFormat* computed_format(std::string_view bytes) {
  if (bytes.starts_with("BZh") && bytes.size() >= 10 && bytes[3] >= '1' && bytes[3] <= '9') {
    const std::string_view block = bytes.substr(4, 6);
    if (block == "1AY&SY"sv || block == "\x17\x72\x45\x38\x50\x90"sv) return &kBzip2;
  }
  if (is_pickle(bytes)) return &kPickle;
  constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // limit of safetensors
  if (bytes.size() >= 10 && bytes.substr(8, 2) == "{\"" &&
      little_endian(bytes.substr(0, 8)) <= kMostHeaderBytes)
    return &kSafetensors;
  if (bytes.starts_with("ORC") &&
      valid_utf8_prefix(bytes) < std::min<std::size_t>(bytes.size(), 64))
    return &kOrc;
  return nullptr;
}

const BinaryFormat* binary_format(std::string_view bytes) {
  const BinaryFormat* found = find_magic(bytes).format;
  return found ? found : computed_format(bytes);
}

// Unlike binary_format(), does not trust two or three magic bytes: 16-bit token ids may match them
// by chance.
const BinaryFormat* certain_format(std::string_view bytes) {
  constexpr std::size_t kProof = 4;
  const FoundMagic magic = find_magic(bytes);
  if (bytes.starts_with("\x1f\x8b\x08"sv) && bytes.size() >= 10) {
    const auto flags = static_cast<unsigned char>(bytes[3]);
    const auto system = static_cast<unsigned char>(bytes[9]);
    return flags < 32 && (system <= 13 || system == 255) ? magic.format : nullptr;
  }
  if (bytes.size() >= 3 && is_pickle(bytes)) {
    // Pickles of protocol 4 and 5, of plain objects, and of torch.save before torch 1.6.
    const std::string_view rest = bytes.substr(2);
    const bool is_framed = bytes[1] >= 4 && rest[0] == '\x95';
    const bool is_object = rest[0] == '}' || rest[0] == ']' || rest[0] == 'c';
    return is_framed || is_object || rest.starts_with("\x8a\x0a\x6c\xfc\x9c\x46"sv) ? &kPickle
                                                                                    : nullptr;
  }
  if (magic.format) return magic.num_bytes >= kProof ? magic.format : nullptr;
  return computed_format(bytes);
}

std::string lower_ending(const std::string& file) {
  const std::string ending = to_lower(std::filesystem::path(file).extension().string());
  return ending.empty() ? ending : ending.substr(1);
}

std::string without_ending(const std::string& file) {
  return std::filesystem::path(file).replace_extension().string();
}

class JsonStart final : public JsonEvents {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return ++numbers, true; }
  bool number_unsigned(std::uint64_t) override { return ++numbers, true; }
  bool number_float(double) override { return ++numbers, true; }
  bool string(std::string&) override { return ++others, true; }
  bool key(std::string&) override { return ++others, true; }
  bool start_object() override { return ++others, true; }
  bool end_object() override { return true; }
  bool start_array() override { return ++lists, true; }
  bool end_array() override { return true; }
  void malformed(const JsonFault& of) override { fault = of; }

  std::size_t numbers = 0, others = 0, lists = 0;
  std::optional<JsonFault> fault;
};

enum class JsonFound { kNone, kRows, kDocument };

// Detects a JSON document, or a first line with a JSON object or list. "[1]" is ignored: it may be
// a footnote.
JsonFound json_in(std::string_view text, bool is_whole) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (text[first] != '{' && text[first] != '['))
    return JsonFound::kNone;
  text.remove_prefix(first);
  const auto is_json = [](std::string_view part, bool may_end_early) {
    JsonStart start;
    read_json(part, start);
    // A fault beyond the last byte means truncated text.
    if (start.fault && !(may_end_early && start.fault->byte > part.size())) return false;
    return start.others > 0 || start.numbers > 1 || start.lists > 1;
  };
  const std::string_view line = text.substr(0, text.find('\n'));
  const bool has_line = line.size() < text.size() || is_whole;
  if (has_line && is_json(line, false))
    return line.front() == '{' ? JsonFound::kRows : JsonFound::kDocument;
  if (!is_json(text, !is_whole)) return JsonFound::kNone;
  return !has_line && text.front() == '{' ? JsonFound::kRows : JsonFound::kDocument;
}

// Returns a command that converts files of this kind ("parquet") to .jsonl, or "".
std::string conversion_to_rows(const std::string& file, std::string_view kind) {
  const std::string rows = without_ending(file) + ".jsonl";
  if (kind == "csv" || kind == "tsv") {
    return formatted(
        "python -c \"import csv, json; [print(json.dumps(row)) for row in csv.DictReader(open('{}')"
        "{})]\" > {}",
        file, kind == "tsv" ? ", delimiter='\\t'" : "", rows);
  }
  if (kind == "parquet" || kind == "arrow") {
    return formatted(
        "python -c \"from datasets import Dataset as D; D.from_{}('{}').to_json('{}')\"",
        kind == "arrow" ? "file" : "parquet", file, rows);
  }
  if (kind == "feather") {
    return formatted(
        "python -c \"import pandas as p; p.read_feather('{}').to_json('{}', orient='records', "
        "lines=True)\"",
        file, rows);
  }
  return {};
}

std::string first_unpacked_bytes(const std::string& name) {
  std::string bytes(kLookedAtBytes, '\0');
  const File file = File::open(name);
  bytes.resize(read_unpacked(file)(bytes.data(), bytes.size()));
  return bytes;
}

Error refusal(const std::string& what, const std::string& where, const std::string& remedy) {
  return Error(ErrorKind::kInput, {.what = what, .where = where, .remedy = remedy});
}

std::string quoted(const std::string& file) { return "'" + file + "'"; }

// Returns the position of the first byte that is not UTF-8 text, or npos. Unless `is_end`, the last
// character may be incomplete.
std::size_t fault_in(std::string_view bytes, bool is_end) {
  const std::size_t valid = valid_utf8_prefix(bytes);
  const std::size_t nul = bytes.substr(0, valid).find('\0');
  if (nul != std::string_view::npos) return nul;
  constexpr std::size_t kLongestCharacter = 4;
  if (valid == bytes.size() || (!is_end && bytes.size() - valid < kLongestCharacter))
    return std::string_view::npos;
  return valid;
}

Error json_rows(const std::string& file, const std::string& where) {
  return refusal(quoted(file) + " holds rows of JSON, not text", where,
                 "name it .jsonl, or set `data.format` = \"jsonl\"");
}

// Detects ids wider than 16 bits: returns "uint32", "int64" or "". Their high halves are zero or
// small.
std::string_view wide_ids(std::string_view bytes) {
  constexpr std::size_t kFewPairs = 4, kManyPairs = 64;
  constexpr std::uint64_t kHighestHalf = 64, kHighId = 4096;  // wide ids are below 2^22
  const std::size_t pairs = bytes.size() / 4;
  std::uint64_t low = 0, high = 0;
  bool is_64 = pairs >= 2 * kFewPairs;
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::uint64_t low_half = little_endian(bytes.substr(4 * i, 2));
    low = std::max(low, low_half);
    high = std::max(high, little_endian(bytes.substr(4 * i + 2, 2)));
    if (i % 2 == 1 && low_half > 0) is_64 = false;
  }
  const bool is_wide = (pairs >= kFewPairs && high == 0 && low > 0) ||
                       (pairs >= kManyPairs && high < kHighestHalf && low >= kHighId);
  if (!is_wide) return {};
  return is_64 && high == 0 ? "int64" : "uint32";
}

bool is_printable_text(std::string_view bytes) {
  constexpr std::size_t kFewBytes = 64;
  return bytes.size() >= kFewBytes && std::all_of(bytes.begin(), bytes.end(), [](char c) {
           return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t';
         });
}

void require_ids(const std::string& file, std::string_view bytes, const std::string& where) {
  if (const BinaryFormat* format = certain_format(bytes)) {
    throw refusal(formatted("{} is {}, not token ids", quoted(file), format->name), where,
                  "a .bin has ids of uint16 and nothing else (nanoGPT), a header of llm.c before "
                  "them, or an .idx of Megatron beside it");
  }
  if (const std::string_view type = wide_ids(bytes); !type.empty()) {
    throw refusal(
        formatted("{} holds ids of {}, not of uint16: every second number of 16 bits is 0 or small",
                  quoted(file), type),
        where,
        formatted("convert it: python -c \"import numpy as n; n.fromfile('{}', "
                  "n.{}).astype(n.uint16).tofile('NEW.bin')\" (ids below 65,536 only), or write it "
                  "as llm.c's format with uint32 ids",
                  file, type));
  }
  if (is_printable_text(bytes)) {
    throw refusal(quoted(file) + " is text, not token ids", where,
                  "name it .txt or .jsonl, or set `data.format` = \"text\" or \"jsonl\"");
  }
}

Error not_text(const std::string& file, std::uint64_t byte, bool is_nul, const std::string& where) {
  if (is_nul) {
    return refusal(formatted("{} is binary: byte {} is NUL", quoted(file), byte), where,
                   "name files of UTF-8 text, or convert it");
  }
  return refusal(formatted("{} is not UTF-8 text: byte {} begins no character", quoted(file), byte),
                 where,
                 formatted("convert it from its encoding, for example: iconv -f LATIN1 -t UTF-8 {} "
                           "> NEW.txt",
                           file));
}

Error binary_file(const std::string& file, const BinaryFormat& format, const std::string& where) {
  const std::string rows = conversion_to_rows(file, format.rows);
  std::string remedy = "convert it to rows: " + rows;
  if (rows.empty())
    remedy =
        format.remedy.empty() ? kOtherFiles : replace_all(std::string(format.remedy), "FILE", file);
  return refusal(formatted("{} is {}", quoted(file), format.name), where, remedy);
}

}  // namespace

std::string first_bytes(const std::string& file) {
  std::string bytes(kLookedAtBytes, '\0');
  bytes.resize(File::open(file).read_some(bytes.data(), bytes.size(), 0));
  return bytes;
}

Error not_readable(const std::string& file, std::string_view bytes, const std::string& where) {
  if (const BinaryFormat* format = binary_format(bytes)) return binary_file(file, *format, where);
  const bool is_whole = bytes.size() < kLookedAtBytes;
  if (json_in(bytes, is_whole) == JsonFound::kRows) return json_rows(file, where);
  const std::string kind = lower_ending(file), rows = conversion_to_rows(file, kind);
  const bool may_be_text = kind == "csv" || kind == "tsv" || rows.empty();
  const bool is_text = may_be_text && fault_in(bytes, is_whole) == std::string_view::npos;
  const std::string as_text = "set `data.format` = \"text\" to train on its lines as they are";
  return refusal(quoted(file) + " is not text, by its ending", where,
                 rows.empty() ? (is_text ? as_text : kOtherFiles)
                              : "convert it to rows: " + rows + (is_text ? ", or " + as_text : ""));
}

void require_content(const std::string& file, DataFormat format, bool is_set,
                     const std::string& where) {
  if (format == DataFormat::kLlmc || format == DataFormat::kMegatron) return;
  std::string bytes = first_bytes(file);
  const bool is_whole = bytes.size() < kLookedAtBytes;
  if (format == DataFormat::kNanogpt) return require_ids(file, bytes, where);
  if (format == DataFormat::kJsonl && is_gzip(bytes)) bytes = first_unpacked_bytes(file);
  const BinaryFormat* binary = binary_format(bytes);
  if (!binary) binary = utf16_format(bytes);
  if (binary) throw binary_file(file, *binary, where);
  if (format == DataFormat::kJsonl) return;
  if (const std::size_t at = fault_in(bytes, is_whole); at != std::string::npos)
    throw not_text(file, at, bytes[at] == '\0', where);
  if (is_set) return;
  switch (json_in(bytes, is_whole)) {
    case JsonFound::kNone:
      return;
    case JsonFound::kRows:
      throw json_rows(file, where);
    case JsonFound::kDocument:
      throw refusal(quoted(file) + " holds JSON, not text", where,
                    "name a list of rows .json, or train on its lines as they are by `data.format` "
                    "= \"text\"");
  }
}

void require_text(const std::string& file) {
  constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
  const File opened = File::open(file);
  std::string block(kBlockBytes, '\0');
  for (std::uint64_t offset = 0;;) {
    const std::size_t count = opened.read_some(block.data(), block.size(), offset);
    const std::string_view bytes(block.data(), count);
    const bool is_end = count < block.size();
    if (const std::size_t at = fault_in(bytes, is_end); at != std::string_view::npos)
      throw not_text(file, offset + at, bytes[at] == '\0', file);
    if (is_end) return;
    offset += valid_utf8_prefix(bytes);
  }
}

}  // namespace sluice::data
