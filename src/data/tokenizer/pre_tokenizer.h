// The field "pre_tokenizer" of tokenizer.json: how a text is split into words.
//
// Owns: the parts ByteLevel, Split, Metaspace, Digits, Whitespace, WhitespaceSplit, Punctuation,
// BertPreTokenizer and Sequence. Does not own: the tokens of a word (bpe.h).
// Thread-safety: const members may be called from any thread.
#pragma once

#include <memory>
#include <vector>

#include "data/tokenizer/json_field.h"
#include "data/tokenizer/text_piece.h"

namespace sluice::data {

class PreTokenizerPart {
 public:
  virtual ~PreTokenizerPart() = default;
  // Gives the parts of a piece, empty ones too, to `next`.
  virtual void split(TextPiece piece, EncodeScratch& scratch, PieceSink next) const = 0;
};

class PreTokenizer {
 public:
  // Throws Error(kInput) naming the field: malformed, a part that is not known.
  explicit PreTokenizer(const JsonField& field);

  // The words are bytes that stand for characters (byte_characters.h), which they are not made of
  // yet.
  bool gives_bytes() const { return gives_bytes_; }
  // Gives the words of a piece, none of them empty, to `word`.
  void split(TextPiece piece, EncodeScratch& scratch, PieceSink word) const {
    run(0, piece, scratch, word);
  }

 private:
  void add(const JsonField& field);
  void run(std::size_t part, TextPiece piece, EncodeScratch& scratch, PieceSink word) const;

  std::vector<std::unique_ptr<PreTokenizerPart>> parts_;
  bool gives_bytes_ = false;
};

}  // namespace sluice::data
