#include "base/content_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

std::string to_digits(XXH128_hash_t hash) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::string digits;
  for (const unsigned char byte : canonical.digest) {
    digits += kDigits[byte >> 4];
    digits += kDigits[byte & 15];
  }
  return digits;
}

}  // namespace

struct ContentHash::Impl {
  XXH3_state_t state;
};

ContentHash::ContentHash() : impl_(std::make_unique<Impl>()) { XXH3_128bits_reset(&impl_->state); }
ContentHash::~ContentHash() = default;

void ContentHash::add(const void* data, std::size_t count) {
  XXH3_128bits_update(&impl_->state, data, count);
}

std::string ContentHash::digits() const { return to_digits(XXH3_128bits_digest(&impl_->state)); }

std::string content_hash(std::string_view bytes) {
  return to_digits(XXH3_128bits(bytes.data(), bytes.size()));
}

}  // namespace sluice
