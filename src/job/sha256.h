// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104).
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

using Digest = std::array<unsigned char, 32>;

Digest sha256(std::string_view message);
Digest hmac_sha256(std::string_view key, std::string_view message);

std::string bytes_of(const Digest& digest, std::size_t count = 32);
// Takes the same time wherever the bytes differ.
bool same_bytes(std::string_view a, std::string_view b);

std::string hex(std::string_view bytes);
// Cryptographically secure. Throws Error(kInternal).
std::string random_bytes(std::size_t count);
std::string random_secret();

}  // namespace sluice
