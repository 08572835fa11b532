// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), with which the processes of a job prove to each
// other that they know its secret; and secrets. For some hundred bytes at a time.
// Thread-safety: pure functions, but for those that ask the system for random numbers.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

using Digest = std::array<unsigned char, 32>;

Digest sha256(std::string_view message);
Digest hmac_sha256(std::string_view key, std::string_view message);

// Bytes of the digest, from the first.
std::string bytes_of(const Digest& digest, std::size_t count = 32);
// In a time that does not depend on where they differ.
bool same_bytes(std::string_view a, std::string_view b);

std::string hex(std::string_view bytes);
// From the system's source, fit for secrets. Throws Error(kInternal) where there is none.
std::string random_bytes(std::size_t count);
// 64 hexadecimal digits that nobody guesses.
std::string random_secret();

}  // namespace sluice
