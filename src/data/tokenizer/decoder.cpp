#include "data/tokenizer/decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "data/tokenizer/byte_characters.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/text_matcher.h"
#include "data/tokenizer/utf8.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

class ByteLevelDecoder final : public DecoderPart {
 public:
  void apply(std::vector<std::string>& tokens, PatternScratch&, std::size_t) const override {
    std::string bytes, text;
    for (const std::string& token : tokens) bytes += bytes_of_characters(token).value_or(token);
    append_repaired(text, bytes);
    tokens.assign(1, std::move(text));
  }
};

class MetaspaceDecoder final : public DecoderPart {
 public:
  MetaspaceDecoder(char32_t replacement, bool prepends) : prepends_(prepends) {
    append_utf8(replacement_, replacement);
  }
  void apply(std::vector<std::string>& tokens, PatternScratch&, std::size_t) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = replace_all(std::move(tokens[i]), replacement_, i == 0 && prepends_ ? "" : " ");
    }
  }

 private:
  std::string replacement_;
  bool prepends_;
};

class ByteFallback final : public DecoderPart {
 public:
  void apply(std::vector<std::string>& tokens, PatternScratch&, std::size_t) const override {
    std::vector<std::string> made;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (valid_utf8_prefix(bytes) == bytes.size()) {
        made.push_back(bytes);
      } else {
        std::string unknown;
        append_utf8(unknown, kReplacementCharacter);
        made.insert(made.end(), bytes.size(), unknown);
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const std::optional<char> byte = byte_of(token)) {
        bytes += *byte;
        continue;
      }
      flush();
      made.push_back(std::move(token));
    }
    flush();
    tokens = std::move(made);
  }

 private:
  // Parses "<0x0A>". Like Rust, also accepts "<0x+A>".
  static std::optional<char> byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
    int value = 0;
    for (std::size_t i = 3; i < 5; ++i) {
      const char c = token[i];
      if (c == '+' && i == 3) continue;
      const int digit = c >= '0' && c <= '9'                     ? c - '0'
                        : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                 : -1;
      if (digit < 0) return std::nullopt;
      value = value * 16 + digit;
    }
    return static_cast<char>(value);
  }
};

class Fuse final : public DecoderPart {
 public:
  void apply(std::vector<std::string>& tokens, PatternScratch&, std::size_t) const override {
    tokens.assign(1, join(tokens, ""));
  }
};

class ReplaceDecoder final : public DecoderPart {
 public:
  ReplaceDecoder(TextMatcher pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::vector<std::string>& tokens, PatternScratch& scratch,
             std::size_t most) const override {
    std::size_t sum = 0;
    for (std::string& token : tokens) {
      if (token.empty()) continue;
      std::string made;
      std::size_t done = 0;
      pattern_.each_match(token, scratch, [&](PatternMatch match) {
        if (sum + made.size() > most) return;
        made += std::string_view(token).substr(done, match.first - done);
        made += content_;
        done = match.last;
      });
      made += std::string_view(token).substr(done);
      token = std::move(made);
      sum += token.size();
    }
  }

 private:
  TextMatcher pattern_;
  std::string content_;
};

class StripDecoder final : public DecoderPart {
 public:
  StripDecoder(char32_t content, std::int64_t start, std::int64_t stop)
      : start_(start), stop_(stop) {
    append_utf8(content_, content);
  }
  void apply(std::vector<std::string>& tokens, PatternScratch&, std::size_t) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (std::int64_t i = 0; i < start_ && rest.starts_with(content_); ++i)
        rest.remove_prefix(content_.size());
      for (std::int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i)
        rest.remove_suffix(content_.size());
      token = std::string(rest);
    }
  }

 private:
  std::string content_;
  std::int64_t start_, stop_;
};

class WordEnds final : public DecoderPart {
 public:
  explicit WordEnds(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& tokens, PatternScratch&, std::size_t) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = replace_all(std::move(tokens[i]), suffix_, i + 1 == tokens.size() ? "" : " ");
    }
  }

 private:
  std::string suffix_;
};

}  // namespace

Decoder::Decoder(const JsonField& field) : where_(field.where()), has_parts_(!field.is_null()) {
  if (has_parts_) add(field);
}

void Decoder::add(const JsonField& field) {
  const std::string type = field.type();
  if (parts_.size() >= kMaxParts)
    field.refuse(formatted("a decoder of more than {} parts", kMaxParts));
  const auto add_part = [this](auto part) {
    parts_.push_back(std::make_unique<decltype(part)>(std::move(part)));
  };
  if (type == "Sequence") {
    for (const JsonField& part : field["decoders"].items()) add(part);
  } else if (type == "ByteLevel") {
    add_part(ByteLevelDecoder());
  } else if (type == "Metaspace") {
    const bool prepends = field["add_prefix_space"].flag_or(true) &&
                          field["prepend_scheme"].text_or("always") != "never";
    add_part(MetaspaceDecoder(field["replacement"].character(), prepends));
  } else if (type == "ByteFallback") {
    add_part(ByteFallback());
  } else if (type == "Fuse") {
    add_part(Fuse());
  } else if (type == "Replace") {
    add_part(ReplaceDecoder(TextMatcher(field["pattern"]), field["content"].short_text()));
  } else if (type == "Strip") {
    add_part(StripDecoder(field["content"].character(), field["start"].number(kMaxTokenId),
                          field["stop"].number(kMaxTokenId)));
  } else if (type == "BPEDecoder") {
    const JsonField suffix = field["suffix"];
    if (suffix.text().empty()) suffix.refuse("an empty suffix");
    add_part(WordEnds(suffix.text()));
  } else {
    field.refuse("the decoder '" + type + "'");
  }
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  if (!has_parts_) return join(tokens, " ");
  const auto size = [&tokens] {
    std::size_t sum = 0;
    for (const std::string& token : tokens) sum += token.size();
    return sum;
  };
  const std::size_t most = kFreeGrowth + kMaxGrowth * (size() + tokens.size());
  PatternScratch scratch;
  scratch.allow(size());
  for (const auto& part : parts_) {
    part->apply(tokens, scratch, most);
    if (size() <= most) continue;
    throw Error(
        ErrorKind::kInput,
        {.what = formatted("the decoder makes a text more than {} times as long", kMaxGrowth),
         .where = where_,
         .remedy = "remove the rules that replace short texts by long ones"});
  }
  return join(tokens, "");
}

}  // namespace sluice::data
