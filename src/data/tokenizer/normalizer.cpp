#include "data/tokenizer/normalizer.h"

#include <algorithm>

#include "base/format.h"
#include "data/tokenizer/byte_characters.h"
#include "data/tokenizer/normal_forms.h"
#include "data/tokenizer/text_matcher.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

// Replaces the text by the output of `append`. Also runs it on the first at_start bytes alone, to
// get their new length.
template <typename Append>
void rewrite(OwnedPiece& piece, EncodeScratch& scratch, Append&& append) {
  std::string& made = scratch.spare;
  std::size_t at_start = 0;
  if (piece.at_start > 0) {
    made.clear();
    append(made, std::string_view(piece.text).substr(0, piece.at_start));
    at_start = made.size();
  }
  made.clear();
  append(made, std::string_view(piece.text));
  piece.text.swap(made);
  piece.at_start = std::min(at_start, piece.text.size());
}

class Form final : public NormalizerPart {
 public:
  explicit Form(NormalForm form) : form_(form) {}
  void apply(OwnedPiece& piece, EncodeScratch& scratch) const override {
    const bool ascii = std::all_of(piece.text.begin(), piece.text.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    if (ascii) return;
    rewrite(piece, scratch, [this](std::string& made, std::string_view text) {
      append_normalized(made, text, form_);
    });
  }

 private:
  NormalForm form_;
};

class Lowercase final : public NormalizerPart {
 public:
  void apply(OwnedPiece& piece, EncodeScratch& scratch) const override {
    rewrite(piece, scratch, append_lowercase);
  }
};

class StripAccents final : public NormalizerPart {
 public:
  void apply(OwnedPiece& piece, EncodeScratch& scratch) const override {
    rewrite(piece, scratch, [](std::string& made, std::string_view text) {
      const CodepointBits& accents = bits_of(CodepointSet::kAccent);
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t start = at;
        if (!accents.has(next_codepoint(text, at))) made += text.substr(start, at - start);
      }
    });
  }
};

class ByteLevelNormalizer final : public NormalizerPart {
 public:
  void apply(OwnedPiece& piece, EncodeScratch& scratch) const override {
    rewrite(piece, scratch, append_byte_characters);
  }
};

class PrependNormalizer final : public NormalizerPart {
 public:
  explicit PrependNormalizer(std::string text) : text_(std::move(text)) {}
  void apply(OwnedPiece& piece, EncodeScratch& scratch) const override {
    if (piece.text.empty() || (scratch.goes_on && piece.at_start > 0)) return;
    piece.text.insert(0, text_);
    if (piece.at_start > 0) piece.at_start += text_.size();
  }

 private:
  std::string text_;
};

class ReplaceNormalizer final : public NormalizerPart {
 public:
  ReplaceNormalizer(TextMatcher pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(OwnedPiece& piece, EncodeScratch& scratch) const override {
    std::string& made = scratch.spare;
    made.clear();
    std::size_t done = 0, at_start = 0;
    const auto keep = [&](std::size_t until) {
      made += std::string_view(piece.text).substr(done, until - done);
      if (done < piece.at_start) at_start += std::min(until, piece.at_start) - done;
      done = until;
    };
    pattern_.each_match(piece.text, scratch.pattern, [&](PatternMatch match) {
      if (made.size() > scratch.most_bytes) return;
      keep(match.first);
      made += content_;
      // The replacement counts as part of the last replaced character.
      if (match.last <= piece.at_start) at_start += content_.size();
      done = match.last;
    });
    if (done == 0 && made.empty()) return;
    keep(piece.text.size());
    piece.text.swap(made);
    piece.at_start = at_start;
  }

 private:
  TextMatcher pattern_;
  std::string content_;
};

class StripNormalizer final : public NormalizerPart {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  void apply(OwnedPiece& piece, EncodeScratch&) const override {
    const CodepointBits& spaces = bits_of(CodepointSet::kWhitespace);
    const auto is_space = [&](std::size_t at) {
      return spaces.has(next_codepoint(piece.text, at));
    };
    std::size_t first = 0, last = piece.text.size();
    while (left_ && first < last && is_space(first)) first += utf8_length(piece.text[first]);
    while (right_ && last > first && is_space(previous_character(piece.text, last))) {
      last = previous_character(piece.text, last);
    }
    piece.at_start = piece.view().part(first, last).at_start;
    piece.text.erase(last);
    piece.text.erase(0, first);
  }

 private:
  bool left_, right_;
};

}  // namespace

Normalizer::Normalizer(const JsonField& field) : where_(field.where()) {
  if (!field.is_null()) add(field);
}

void Normalizer::apply(OwnedPiece& piece, EncodeScratch& scratch) const {
  scratch.most_bytes = kFreeGrowth + kMaxGrowth * piece.text.size();
  for (const auto& part : parts_) {
    part->apply(piece, scratch);
    if (piece.text.size() <= scratch.most_bytes) continue;
    throw Error(
        ErrorKind::kInput,
        {.what = formatted("the normalizer makes a text more than {} times as long", kMaxGrowth),
         .where = where_,
         .remedy = "remove the rules that replace short texts by long ones"});
  }
}

void Normalizer::add(const JsonField& field) {
  const std::string type = field.type();
  if (parts_.size() >= kMaxParts)
    field.refuse(formatted("a normalizer of more than {} parts", kMaxParts));
  const auto add_part = [this](auto part) {
    parts_.push_back(std::make_unique<decltype(part)>(std::move(part)));
  };
  if (type == "Sequence") {
    for (const JsonField& part : field["normalizers"].items()) add(part);
  } else if (type == "NFC") {
    add_part(Form(NormalForm::kNfc));
  } else if (type == "NFD") {
    add_part(Form(NormalForm::kNfd));
  } else if (type == "NFKC") {
    add_part(Form(NormalForm::kNfkc));
  } else if (type == "NFKD") {
    add_part(Form(NormalForm::kNfkd));
  } else if (type == "Lowercase") {
    add_part(Lowercase());
  } else if (type == "StripAccents") {
    add_part(StripAccents());
  } else if (type == "ByteLevel") {
    add_part(ByteLevelNormalizer());
  } else if (type == "Prepend") {
    add_part(PrependNormalizer(field["prepend"].short_text()));
  } else if (type == "Replace") {
    add_part(ReplaceNormalizer(TextMatcher(field["pattern"]), field["content"].short_text()));
  } else if (type == "Strip") {
    add_part(StripNormalizer(field["strip_left"].flag(), field["strip_right"].flag()));
  } else {
    field.refuse("the normalizer '" + type + "'");
  }
}

}  // namespace sluice::data
