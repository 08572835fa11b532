// Splits text into words with the field "pre_tokenizer" of tokenizer.json.
#pragma once

#include <memory>
#include <vector>

#include "data/tokenizer/json_field.h"
#include "data/tokenizer/text_piece.h"

namespace sluice::data {

class PreTokenizerPart {
 public:
  virtual ~PreTokenizerPart() = default;
  // Passes parts to `next`, which may be empty.
  virtual void split(TextPiece piece, EncodeScratch& scratch, PieceSink next) const = 0;
};

class PreTokenizer {
 public:
  // Throws Error(kInput) for an unsupported part.
  explicit PreTokenizer(const JsonField& field);

  // Whether words are raw bytes for Bpe::encode_bytes().
  bool gives_bytes() const { return gives_bytes_; }
  // Words are never empty.
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
