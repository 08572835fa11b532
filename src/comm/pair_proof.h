// Proves that both ends of a connection have the job's secret. Each end sends a random number, then
// an HMAC-SHA-256 of the connection, both process numbers and both random numbers, which is useless
// on other connections.
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
// `connection`: name and lane.
std::string pair_proof(const std::string& secret, const std::string& connection,
                       const PairEnd& from, const PairEnd& to);

}  // namespace sluice
