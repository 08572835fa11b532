// The field "normalizer" of tokenizer.json: what a text becomes before it is split.
//
// Owns: the parts NFC, NFD, NFKC, NFKD, Prepend, Replace, Lowercase, Strip, StripAccents, ByteLevel
// and Sequence. Does not own: added tokens, which are taken out before or after (added_tokens.h).
// Thread-safety: const members may be called from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer/json_field.h"
#include "data/tokenizer/text_piece.h"

namespace sluice::data {

class NormalizerPart {
 public:
  virtual ~NormalizerPart() = default;
  virtual void apply(OwnedPiece& piece, EncodeScratch& scratch) const = 0;
};

class Normalizer {
 public:
  // Throws Error(kInput) naming the field: malformed, a part that is not known.
  explicit Normalizer(const JsonField& field);

  bool is_identity() const { return parts_.empty(); }
  void apply(OwnedPiece& piece, EncodeScratch& scratch) const {
    for (const auto& part : parts_) part->apply(piece, scratch);
  }

 private:
  void add(const JsonField& field);
  std::vector<std::unique_ptr<NormalizerPart>> parts_;
};

}  // namespace sluice::data
