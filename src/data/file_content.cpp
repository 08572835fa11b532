#include "data/file_content.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/json_events.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data {
namespace {

using namespace std::string_view_literals;

constexpr const char* kOtherFiles = "name files of UTF-8 text, of .jsonl rows or of token ids";

// A format known by fixed bytes at `offset`. command: unpacks or converts the file, or "".
struct Magic {
  std::string_view bytes;
  std::size_t offset;
  std::string_view name, command;
};
constexpr Magic kMagics[] = {
    {"\x1f\x8b"sv, 0, "compressed by gzip", "gzip -dk"},
    {"\x1f\x9d"sv, 0, "compressed by compress", "gzip -dk"},
    {"\xfd"
     "7zXZ\0"sv,
     0, "compressed by xz", "xz -dk"},
    {"LZIP\1"sv, 0, "compressed by lzip", "lzip -dk"},
    {"\x5d\0\0"sv, 0, "compressed by lzma", "xz -dk"},
    {"\x28\xb5\x2f\xfd"sv, 0, "compressed by zstd", "zstd -dk"},
    {"\x04\x22\x4d\x18"sv, 0, "compressed by lz4", "lz4 -dk"},
    {"\x02\x21\x4c\x18"sv, 0, "compressed by lz4", "lz4 -dk"},
    {"\xff\x06\0\0sNaPpY"sv, 0, "compressed by snappy", ""},
    {"PK\3\4"sv, 0, "a zip archive", "unzip"},
    {"PK\5\6"sv, 0, "a zip archive", "unzip"},
    {"PK\7\x08"sv, 0, "a zip archive", "unzip"},
    {"7z\xbc\xaf\x27\x1c"sv, 0, "a 7z archive", "7z x"},
    {"Rar!\x1a\7"sv, 0, "a rar archive", "unrar x"},
    {"ustar\0"sv, 257, "a tar archive", "tar xf"},
    {"ustar  \0"sv, 257, "a tar archive", "tar xf"},
    {"!<arch>\n"sv, 0, "an ar archive", "ar x"},
    {"PAR1"sv, 0, "a Parquet file", ""},
    {"ARROW1"sv, 0, "an Arrow file", ""},
    {"FEA1"sv, 0, "a Feather file", ""},
    {"\xff\xff\xff\xff"sv, 0, "an Arrow stream", ""},
    {"Obj\1"sv, 0, "an Avro file", ""},
    {"SEQ\6"sv, 0, "a Hadoop sequence file", ""},
    {"\x93NUMPY"sv, 0, "a NumPy array", ""},
    {"\x89HDF\r\n\x1a\n"sv, 0, "an HDF5 file", ""},
    {"CDF\1"sv, 0, "a NetCDF file", ""},
    {"CDF\2"sv, 0, "a NetCDF file", ""},
    {"SQLite format 3\0"sv, 0, "an SQLite database", ""},
    {"MMIDIDX\0\0"sv, 0, "the index of a Megatron data set", ""},
    {"GGUF\1\0"sv, 0, "a GGUF model", ""},
    {"GGUF\2\0"sv, 0, "a GGUF model", ""},
    {"GGUF\3\0"sv, 0, "a GGUF model", ""},
    {"\x7f"
     "ELF"sv,
     0, "a program", ""},
    {"%PDF-"sv, 0, "a PDF document", "pdftotext"},
    {"%!PS"sv, 0, "a PostScript document", "ps2ascii"},
    {"{\\rtf"sv, 0, "an RTF document", ""},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, 0, "an old Office document", ""},
    {"\x89PNG\r\n\x1a\n"sv, 0, "a PNG picture", ""},
    {"\xff\xd8\xff"sv, 0, "a JPEG picture", ""},
    {"GIF87a"sv, 0, "a GIF picture", ""},
    {"GIF89a"sv, 0, "a GIF picture", ""},
    {"II*\0"sv, 0, "a TIFF picture", ""},
    {"MM\0*"sv, 0, "a TIFF picture", ""},
    {"WAVEfmt "sv, 8, "a WAV file", ""},
    {"AVI LIST"sv, 8, "an AVI file", ""},
    {"WEBPVP8"sv, 8, "a WebP picture", ""},
    {"OggS\0"sv, 0, "an Ogg file", ""},
    {"fLaC\0"sv, 0, "a FLAC file", ""},
    {"ID3\2\0"sv, 0, "an MP3 file", ""},
    {"ID3\3\0"sv, 0, "an MP3 file", ""},
    {"ID3\4\0"sv, 0, "an MP3 file", ""},
    {"ftyp"sv, 4, "an MP4 file", ""},
    {"\x1a\x45\xdf\xa3"sv, 0, "a Matroska file", ""},
    {"\xff\xfe\0\0"sv, 0, "text in UTF-32", "iconv -f UTF-32 -t UTF-8"},
    {"\0\0\xfe\xff"sv, 0, "text in UTF-32", "iconv -f UTF-32 -t UTF-8"},
    {"\xff\xfe"sv, 0, "text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff"sv, 0, "text in UTF-16", "iconv -f UTF-16 -t UTF-8"}};

std::size_t tenths(std::size_t count, std::size_t total) { return total ? 10 * count / total : 0; }

// Detects UTF-16 without a byte order mark by its zero bytes, since most characters are ASCII.
std::string_view utf16_name(std::string_view bytes) {
  std::size_t even = 0, odd = 0;
  const std::size_t pairs = bytes.size() / 2;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    even += bytes[i] == '\0' && bytes[i + 1] != '\0';
    odd += bytes[i] != '\0' && bytes[i + 1] == '\0';
  }
  if (pairs < 4) return {};
  if (tenths(odd, pairs) >= 7 && even == 0) return "UTF-16LE";
  if (tenths(even, pairs) >= 7 && odd == 0) return "UTF-16BE";
  return {};
}

const Magic* find_magic(std::string_view bytes) {
  const auto fits = [&](const Magic& magic) {
    return bytes.size() >= magic.offset && bytes.substr(magic.offset).starts_with(magic.bytes);
  };
  const Magic* found = std::find_if(std::begin(kMagics), std::end(kMagics), fits);
  return found == std::end(kMagics) ? nullptr : found;
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

// Formats that fixed bytes alone do not identify.
std::string_view computed_format(std::string_view bytes) {
  if (bytes.starts_with("BZh") && bytes.size() >= 10 && bytes[3] >= '1' && bytes[3] <= '9') {
    const std::string_view block = bytes.substr(4, 6);
    if (block == "1AY&SY"sv || block == "\x17\x72\x45\x38\x50\x90"sv) return "compressed by bzip2";
  }
  if (is_pickle(bytes)) return "a pickle of Python";
  constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // of safetensors
  if (bytes.size() >= 10 && bytes.substr(8, 2) == "{\"" &&
      little_endian(bytes.substr(0, 8)) <= kMostHeaderBytes)
    return "a safetensors file";
  if (bytes.starts_with("ORC") &&
      valid_utf8_prefix(bytes) < std::min<std::size_t>(bytes.size(), 64))
    return "an ORC file";
  return {};
}

// The format of a file that may also hold 16-bit ids, where a match of two or three bytes is
// chance.
std::string_view certain_format(std::string_view bytes) {
  constexpr std::size_t kProof = 4;
  if (bytes.starts_with("\x1f\x8b\x08"sv) && bytes.size() >= 10) {
    const auto flags = static_cast<unsigned char>(bytes[3]);
    const auto system = static_cast<unsigned char>(bytes[9]);
    return flags < 32 && (system <= 13 || system == 255) ? "compressed by gzip" : "";
  }
  if (bytes.size() >= 3 && is_pickle(bytes)) {
    // The start of protocols 4 and 5, of plain objects, and of torch.save before torch 1.6.
    const std::string_view rest = bytes.substr(2);
    const bool is_framed = bytes[1] >= 4 && rest[0] == '\x95';
    const bool is_object = rest[0] == '}' || rest[0] == ']' || rest[0] == 'c';
    return is_framed || is_object || rest.starts_with("\x8a\x0a\x6c\xfc\x9c\x46"sv)
               ? "a pickle of Python"
               : "";
  }
  if (const Magic* magic = find_magic(bytes))
    return magic->bytes.size() >= kProof ? magic->name : std::string_view();
  return computed_format(bytes);
}

std::string lower_ending(const std::string& file) {
  return to_lower(std::filesystem::path(file).extension().string());
}

std::string without_ending(const std::string& file) {
  return std::filesystem::path(file).replace_extension().string();
}

// Counts the values of a JSON document and keeps its first fault.
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

// The JSON at the start of a text: a line with an object or list, or a document of several lines. A
// list of one number is no JSON here, since "[1]" may be a footnote. is_whole: the file ends with
// `text`.
JsonFound json_in(std::string_view text, bool is_whole) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (text[first] != '{' && text[first] != '['))
    return JsonFound::kNone;
  text.remove_prefix(first);
  const auto is_json = [](std::string_view part, bool may_end_early) {
    JsonStart start;
    read_json(part, start);
    // The parser reports an unexpected end one byte after the part.
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

std::string_view binary_format(std::string_view bytes) {
  if (const Magic* magic = find_magic(bytes)) return magic->name;
  return computed_format(bytes);
}

// The command that converts a file of this kind ("parquet") to .jsonl, or "".
std::string conversion_to_rows(const std::string& file, std::string_view kind) {
  const std::string rows = without_ending(file) + ".jsonl";
  if (kind == "json") {
    return formatted(
        "python -c \"import json; [print(json.dumps(row)) for row in json.load(open('{}'))]\" > {}",
        file, rows);
  }
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

Error refusal(const std::string& what, const std::string& where, const std::string& remedy) {
  return Error(ErrorKind::kInput, {.what = what, .where = where, .remedy = remedy});
}

std::string quoted(const std::string& file) { return "'" + file + "'"; }

// The first byte that is not UTF-8 text, or npos. Unless is_end, the last character may be
// incomplete.
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

// "uint32" or "int64" if the ids look wider than 16 bits, else "". The high halves of wide ids are
// 0 or small; 16-bit ids are never so at every second place.
std::string_view wide_ids(std::string_view bytes) {
  constexpr std::size_t kFewPairs = 4, kManyPairs = 64;
  constexpr std::uint64_t kHighestHalf = 64, kHighId = 4096;  // ids are below 2^22
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
  if (const std::string_view name = certain_format(bytes); !name.empty()) {
    throw refusal(formatted("{} is {}, not token ids", quoted(file), name), where,
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

}  // namespace

std::string first_bytes(const std::string& file) {
  std::string bytes(kLookedAtBytes, '\0');
  bytes.resize(File::open(file).read_some(bytes.data(), bytes.size(), 0));
  return bytes;
}

Error not_readable(const std::string& file, std::string_view bytes, const std::string& where) {
  const Magic* magic = find_magic(bytes);
  const std::string_view name = magic ? magic->name : computed_format(bytes);
  const std::string ending = lower_ending(file);
  std::string_view kind = ending.empty() ? std::string_view() : std::string_view(ending).substr(1);
  if (name.empty()) {
    const bool is_whole = bytes.size() < kLookedAtBytes;
    if (json_in(bytes, is_whole) == JsonFound::kRows) return json_rows(file, where);
    const std::string rows = conversion_to_rows(file, kind);
    const bool may_be_text = kind == "json" || kind == "csv" || kind == "tsv" || rows.empty();
    const bool is_text = may_be_text && fault_in(bytes, is_whole) == std::string_view::npos;
    const std::string as_text = "set `data.format` = \"text\" to train on its lines as they are";
    return refusal(quoted(file) + " is not text, by its ending", where,
                   rows.empty()
                       ? (is_text ? as_text : kOtherFiles)
                       : "convert it to rows: " + rows + (is_text ? ", or " + as_text : ""));
  }
  const std::string what = formatted("{} is {}", quoted(file), name);
  if (name == "a Parquet file") kind = "parquet";
  if (name == "an Arrow stream") kind = "arrow";
  if (name == "an Arrow file" || name == "a Feather file") kind = "feather";
  if (const std::string rows = conversion_to_rows(file, kind); !rows.empty() && kind != "json")
    return refusal(what, where, "convert it to rows: " + rows);
  const std::string_view command = name == "compressed by bzip2" ? "bzip2 -dk"
                                   : magic                       ? magic->command
                                                                 : std::string_view();
  if (command.empty()) return refusal(what, where, kOtherFiles);
  if (command.starts_with("iconv"))
    return refusal(what, where, formatted("convert it: {} {} > NEW.txt", command, file));
  const bool is_document = command.starts_with("p");
  return refusal(
      what, where,
      formatted("{}: {} {}", is_document ? "convert it to text" : "unpack it", command, file));
}

void require_content(const std::string& file, DataFormat format, bool is_set,
                     const std::string& where) {
  if (format == DataFormat::kLlmc || format == DataFormat::kMegatron) return;  // have headers
  const std::string bytes = first_bytes(file);
  const bool is_whole = bytes.size() < kLookedAtBytes;
  if (format == DataFormat::kNanogpt) return require_ids(file, bytes, where);
  if (!binary_format(bytes).empty()) throw not_readable(file, bytes, where);
  if (const std::string_view utf16 = utf16_name(bytes); !utf16.empty()) {
    throw refusal(quoted(file) + " is text in UTF-16", where,
                  formatted("convert it: iconv -f {} -t UTF-8 {} > NEW.txt", utf16, file));
  }
  if (format == DataFormat::kJsonl) return;  // the reader of rows names the line
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
                    "convert a list of rows: " + conversion_to_rows(file, "json") +
                        ", or train on its lines as they are by `data.format` = \"text\"");
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
