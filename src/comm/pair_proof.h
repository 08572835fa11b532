// The proof by which the two ends of a connection show each other that they know the secret of the
// job.
//
// Each end says a random number, then the HMAC-SHA-256 of what the connection is, who it is, and
// both numbers: what one end says proves nothing in the mouth of the other, on another lane or
// another connection. Thread-safety: values.
#pragma once

#include <string>

namespace sluice {

inline constexpr int kPairNonceBytes = 32;
inline constexpr int kPairProofBytes = 32;

struct PairEnd {
  int process = 0;
  std::string nonce;
};

PairEnd make_pair_end(int process);
// The proof that `from` sends to `to`. connection: name and lane.
std::string pair_proof(const std::string& secret, const std::string& connection,
                       const PairEnd& from, const PairEnd& to);

}  // namespace sluice
