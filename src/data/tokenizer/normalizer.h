// Normalizes text with the field "normalizer" of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer/json_field.h"
#include "data/tokenizer/text_piece.h"

namespace sluice::data {

// A text may grow kMaxGrowth times, plus kFreeGrowth bytes. Compatibility decomposition can make it
// 11 times as long.
inline constexpr std::size_t kMaxGrowth = 32, kFreeGrowth = 1 << 16;

class NormalizerPart {
 public:
  virtual ~NormalizerPart() = default;
  // May stop after scratch.most_bytes of output.
  virtual void apply(OwnedPiece& piece, EncodeScratch& scratch) const = 0;
};

class Normalizer {
 public:
  // Throws Error(kInput) for an unsupported part.
  explicit Normalizer(const JsonField& field);

  bool is_identity() const { return parts_.empty(); }
  // Throws Error(kInput) if the text grows beyond the bounds above.
  void apply(OwnedPiece& piece, EncodeScratch& scratch) const;

 private:
  void add(const JsonField& field);
  std::string where_;
  std::vector<std::unique_ptr<NormalizerPart>> parts_;
};

}  // namespace sluice::data
