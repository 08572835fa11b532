#include <cerrno>
#include <charconv>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/line_reader.h"
#include "base/print.h"
#include "base/strict_json.h"
#include "command_line.h"
#include "commands.h"
#include "sluice/error.h"
#include "sluice/tokenizer.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxLineBytes = std::size_t{256} << 20;
constexpr std::size_t kChunkBytes = std::size_t{1} << 18;

struct TokenizeArguments {
  std::string tokenizer, file;
  bool decode = false, no_special = false;
};

Json parse_line(std::string_view line, const LineReader& reader, const std::string& expected) {
  if (std::optional<Json> value = parse_json(line)) return std::move(*value);
  throw Error(ErrorKind::kInput, {.what = "the line is not valid JSON, but should be " + expected,
                                  .where = reader.where(),
                                  .remedy = "correct the line"});
}

[[noreturn]] void refuse_line(const Json& found, const LineReader& reader,
                              const std::string& expected) {
  throw Error(ErrorKind::kInput, {.what = "expected " + expected + ", found " + found.type_name(),
                                  .where = reader.where(),
                                  .remedy = "correct the line"});
}

void append_number(std::string& text, std::int64_t number) {
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number);
  text.append(digits, end);
}

void encode_line(const Tokenizer& tokenizer, const Json& text, bool special, std::string& out) {
  out += '[';
  bool first = true;
  for (const std::int32_t id : tokenizer.encode(text.text(), special)) {
    if (!first) out += ',';
    first = false;
    append_number(out, id);
  }
  out += "]\n";
}

void decode_line(const Tokenizer& tokenizer, const Json& list, const LineReader& reader,
                 std::string& out) {
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const Json& id : list.list()) {
    if (!id.is_number_unsigned() || id.unsigned_integer() > INT32_MAX)
      refuse_line(id, reader, "ids, whole numbers from 0 on");
    ids.push_back(static_cast<std::int32_t>(id.integer()));
  }
  // Print ASCII only, because some programs treat U+2028 and similar characters as line ends.
  out += Json(tokenizer.decode(ids)).shown() + "\n";
}

void write(std::string& out) {
  print_exact(out);
  out.clear();
  if (!std::cout) finish_stdout();  // throws with the reason
}

int tokenize(const TokenizeArguments& arguments) {
  const Tokenizer tokenizer = Tokenizer::read(arguments.tokenizer);
  std::optional<File> file;
  if (arguments.file != "-") file.emplace(File::open(arguments.file));
  LineReader reader = file ? LineReader(*file, kMaxLineBytes) : LineReader::of_stdin(kMaxLineBytes);
  const std::string expected = arguments.decode ? "a JSON array of ids" : "a JSON string";
  std::string out;
  errno = 0;
  try {
    while (const std::optional<std::string_view> line = reader.next_text()) {
      const Json value = parse_line(*line, reader, expected);
      if (arguments.decode ? !value.is_array() : !value.is_string())
        refuse_line(value, reader, expected);
      if (arguments.decode) {
        decode_line(tokenizer, value, reader, out);
      } else {
        encode_line(tokenizer, value, !arguments.no_special, out);
      }
      if (out.size() >= kChunkBytes) write(out);
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    write(out);
    finish_stdout();
    const bool placed = error.where().starts_with(reader.where());
    throw placed ? error : error.at(reader.where() + ", " + error.where());
  }
  write(out);
  finish_stdout();
  return 0;
}

}  // namespace

Command tokenize_command() {
  const auto a = std::make_shared<TokenizeArguments>();
  return {
      .name = "tokenize",
      .help = "Converts text to token ids, or back, with a tokenizer.json.",
      .options = {required({"FILE", &a->file, "one JSON string per line; '-' reads stdin"}),
                  required({"--tokenizer", &a->tokenizer, "a tokenizer.json, or its directory"}),
                  {"--decode", &a->decode, "convert back: FILE has one JSON array of ids per line"},
                  {"--no-special", &a->no_special,
                   "leave out the special tokens around a text, such as <s>"}},
      .footer = "Prints one JSON array of ids for every line, or one JSON string with --decode.",
      .rules = {{.given = {"--decode", "--no-special"},
                 .what = "--no-special has no effect with --decode, which keeps every token",
                 .remedy = "leave one of them out"}},
      .run = [a] { return at_command("data tokenize", [&] { return tokenize(*a); }); }};
}

}  // namespace sluice
