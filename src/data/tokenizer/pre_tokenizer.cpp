#include "data/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/format.h"
#include "data/tokenizer/byte_characters.h"
#include "data/tokenizer/text_matcher.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data {
namespace {

// GPT-2's pattern, the default of ByteLevel.
constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behavior behavior_of(const JsonField& field) {
  static constexpr std::array<std::pair<std::string_view, Behavior>, 5> kNames = {
      {{"Removed", Behavior::kRemoved},
       {"Isolated", Behavior::kIsolated},
       {"MergedWithPrevious", Behavior::kMergedWithPrevious},
       {"MergedWithNext", Behavior::kMergedWithNext},
       {"Contiguous", Behavior::kContiguous}}};
  const std::string name = field.text();
  for (const auto& [known, behavior] : kNames) {
    if (known == name) return behavior;
  }
  field.refuse("the behavior '" + name + "'");
}

// Splits a piece of text at delimiters. Call delimiter() for each one in the order of the text,
// then finish().
class Cutter {
 public:
  Cutter(TextPiece piece, Behavior behavior, bool invert, PieceSink next)
      : piece_(piece), behavior_(behavior), invert_(invert), next_(next) {}

  void delimiter(std::size_t first, std::size_t last) {
    if (first > done_) stretch(done_, first, invert_);
    stretch(first, last, !invert_);
    done_ = last;
  }
  void finish() {
    if (done_ < piece_.text.size()) stretch(done_, piece_.text.size(), invert_);
    flush();
  }

 private:
  void give(std::size_t first, std::size_t last) { next_(piece_.part(first, last)); }
  void flush() {
    if (open_) give(open_first_, open_last_);
    open_ = false;
  }
  void open(std::size_t first, std::size_t last) {
    flush();
    open_ = true;
    open_first_ = first;
    open_last_ = last;
  }

  void stretch(std::size_t first, std::size_t last, bool is_delimiter) {
    switch (behavior_) {
      case Behavior::kRemoved:
        if (!is_delimiter) give(first, last);
        break;
      case Behavior::kIsolated:
        give(first, last);
        break;
      case Behavior::kContiguous:
        if (open_ && is_delimiter == previous_) {
          open_last_ = last;
        } else {
          open(first, last);
        }
        break;
      case Behavior::kMergedWithPrevious:
        if (is_delimiter && !previous_ && open_) {
          open_last_ = last;
        } else {
          open(first, last);
        }
        break;
      case Behavior::kMergedWithNext:
        // Of several delimiters in a row, only the last joins the next word.
        if (!is_delimiter && previous_ && open_) {
          open_last_ = last;
        } else {
          open(first, last);
        }
        break;
    }
    previous_ = is_delimiter;
  }

  TextPiece piece_;
  Behavior behavior_;
  bool invert_;
  PieceSink next_;
  std::size_t done_ = 0;
  bool previous_ = false, open_ = false;
  std::size_t open_first_ = 0, open_last_ = 0;
};

class Split final : public PreTokenizerPart {
 public:
  Split(TextMatcher pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void split(TextPiece piece, EncodeScratch& scratch, PieceSink next) const override {
    Cutter cutter(piece, behavior_, invert_, next);
    pattern_.each_match(piece.text, scratch.pattern,
                        [&](PatternMatch match) { cutter.delimiter(match.first, match.last); });
    cutter.finish();
  }

 private:
  TextMatcher pattern_;
  Behavior behavior_;
  bool invert_;
};

class SplitAtCharacters final : public PreTokenizerPart {
 public:
  SplitAtCharacters(CodepointSet set, Behavior behavior)
      : set_(bits_of(set)), behavior_(behavior) {}
  void split(TextPiece piece, EncodeScratch&, PieceSink next) const override {
    Cutter cutter(piece, behavior_, false, next);
    for (std::size_t at = 0; at < piece.text.size();) {
      const std::size_t start = at;
      if (set_.has(next_codepoint(piece.text, at))) cutter.delimiter(start, at);
    }
    cutter.finish();
  }

 private:
  const CodepointBits& set_;
  Behavior behavior_;
};

// Splits text into runs of word characters and of others, without white space.
class Whitespace final : public PreTokenizerPart {
 public:
  void split(TextPiece piece, EncodeScratch&, PieceSink next) const override {
    const CodepointBits &words = bits_of(CodepointSet::kWholeWord),
                        &spaces = bits_of(CodepointSet::kWhitespace);
    enum class Word { kNone, kWhole, kOther } open = Word::kNone;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < piece.text.size();) {
      const std::size_t start = at;
      const char32_t c = next_codepoint(piece.text, at);
      const Word word = words.has(c) ? Word::kWhole : spaces.has(c) ? Word::kNone : Word::kOther;
      if (word == open) continue;
      if (open != Word::kNone) next(piece.part(begin, start));
      open = word;
      begin = start;
    }
    if (open != Word::kNone) next(piece.part(begin, piece.text.size()));
  }
};

class Metaspace final : public PreTokenizerPart {
 public:
  enum class Prepend { kFirst, kNever, kAlways };
  Metaspace(char32_t replacement, Prepend prepend, bool split) : prepend_(prepend), split_(split) {
    append_utf8(replacement_, replacement);
  }
  void split(TextPiece piece, EncodeScratch& scratch, PieceSink next) const override {
    OwnedPiece own;
    std::size_t from = 0;
    while (from < piece.text.size()) {
      const std::size_t space = std::min(piece.text.find(' ', from), piece.text.size());
      own.text += piece.text.substr(from, space - from);
      if (space < piece.text.size()) own.text += replacement_;
      from = space + 1;
    }
    const std::string_view start = piece.text.substr(0, piece.at_start);
    const auto spaces = static_cast<std::size_t>(std::count(start.begin(), start.end(), ' '));
    own.at_start = start.size() - spaces + spaces * replacement_.size();
    const bool wanted =
        prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && own.at_start > 0);
    if (wanted && !own.text.starts_with(replacement_) && !(scratch.goes_on && own.at_start > 0)) {
      own.text.insert(0, replacement_);
      if (own.at_start > 0) own.at_start += replacement_.size();
    }
    if (!split_) {
      next(own.view());
      return;
    }
    Cutter cutter(own.view(), Behavior::kMergedWithNext, false, next);
    for (std::size_t at = 0; (at = own.text.find(replacement_, at)) != std::string::npos;
         at += replacement_.size()) {
      cutter.delimiter(at, at + replacement_.size());
    }
    cutter.finish();
  }

 private:
  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

class ByteLevel final : public PreTokenizerPart {
 public:
  ByteLevel(bool prefix_space, bool split, const std::string& where) : prefix_space_(prefix_space) {
    if (split) words_.emplace(kGpt2Words, where);
  }
  // Outputs characters (byte_characters.h) instead of bytes, for later pre-tokenizers.
  void make_characters() { characters_ = true; }

  void split(TextPiece piece, EncodeScratch& scratch, PieceSink next) const override {
    OwnedPiece own;
    if (prefix_space_ && !piece.text.starts_with(' ') && !(scratch.goes_on && piece.at_start > 0)) {
      own.text = " ";
      own.text += piece.text;
      own.at_start = piece.at_start == 0 ? 0 : piece.at_start + 1;
      piece = own.view();
    }
    std::string characters;
    auto give = [&](TextPiece word) {
      if (!characters_) {
        next(word);
        return;
      }
      characters.clear();
      append_byte_characters(characters, word.text.substr(0, word.at_start));
      const std::size_t at_start = characters.size();
      append_byte_characters(characters, word.text.substr(word.at_start));
      next(TextPiece{characters, at_start});
    };
    if (!words_) {
      give(piece);
      return;
    }
    Cutter cutter(piece, Behavior::kIsolated, false, give);
    words_->each_match(piece.text, scratch.pattern,
                       [&](PatternMatch match) { cutter.delimiter(match.first, match.last); });
    cutter.finish();
  }

 private:
  bool prefix_space_, characters_ = false;
  std::optional<Pattern> words_;
};

Metaspace metaspace(const JsonField& field) {
  using Prepend = Metaspace::Prepend;
  const JsonField scheme = field["prepend_scheme"];
  const std::string name = scheme.text_or("always");
  Prepend prepend = name == "first"   ? Prepend::kFirst
                    : name == "never" ? Prepend::kNever
                                      : Prepend::kAlways;
  if (prepend == Prepend::kAlways && name != "always")
    scheme.refuse("the prepend scheme '" + name + "'");
  if (!field["add_prefix_space"].flag_or(true)) {
    if (!scheme.is_null() && prepend != Prepend::kNever)
      scheme.refuse("another value than 'never' where add_prefix_space is false,");
    prepend = Prepend::kNever;
  }
  return {field["replacement"].character(), prepend, field["split"].flag_or(true)};
}

}  // namespace

PreTokenizer::PreTokenizer(const JsonField& field) {
  if (!field.is_null()) add(field);
  bool has_bytes = false;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    auto* const bytes = dynamic_cast<ByteLevel*>(parts_[i].get());
    if (!bytes) continue;
    // Each ByteLevel makes the text longer.
    if (std::exchange(has_bytes, true)) field.refuse("a second ByteLevel");
    gives_bytes_ = i + 1 == parts_.size();
    if (!gives_bytes_) bytes->make_characters();
  }
}

void PreTokenizer::add(const JsonField& field) {
  const std::string type = field.type();
  if (parts_.size() >= kMaxParts)
    field.refuse(formatted("a pre-tokenizer of more than {} parts", kMaxParts));
  const auto add_part = [this](auto part) {
    parts_.push_back(std::make_unique<decltype(part)>(std::move(part)));
  };
  if (type == "Sequence") {
    for (const JsonField& part : field["pretokenizers"].items()) add(part);
  } else if (type == "ByteLevel") {
    add_part(ByteLevel(field["add_prefix_space"].flag(), field["use_regex"].flag_or(true),
                       field.where()));
  } else if (type == "Split") {
    add_part(Split(TextMatcher(field["pattern"]), behavior_of(field["behavior"]),
                   field["invert"].flag()));
  } else if (type == "Metaspace") {
    add_part(metaspace(field));
  } else if (type == "Digits") {
    add_part(SplitAtCharacters(CodepointSet::kNumeric, field["individual_digits"].flag()
                                                           ? Behavior::kIsolated
                                                           : Behavior::kContiguous));
  } else if (type == "Whitespace") {
    add_part(Whitespace());
  } else if (type == "WhitespaceSplit") {
    add_part(SplitAtCharacters(CodepointSet::kWhitespace, Behavior::kRemoved));
  } else if (type == "Punctuation") {
    const JsonField behavior = field["behavior"];
    add_part(SplitAtCharacters(CodepointSet::kPunctuation,
                               behavior.is_null() ? Behavior::kIsolated : behavior_of(behavior)));
  } else if (type == "BertPreTokenizer") {
    add_part(SplitAtCharacters(CodepointSet::kWhitespace, Behavior::kRemoved));
    add_part(SplitAtCharacters(CodepointSet::kPunctuation, Behavior::kIsolated));
  } else {
    field.refuse("the pre-tokenizer '" + type + "'");
  }
}

void PreTokenizer::run(std::size_t part, TextPiece piece, EncodeScratch& scratch,
                       PieceSink word) const {
  if (part == parts_.size()) {
    word(piece);
    return;
  }
  auto next = [&](TextPiece made) {
    if (!made.text.empty()) run(part + 1, made, scratch, word);
  };
  parts_[part]->split(piece, scratch, next);
}

}  // namespace sluice::data
