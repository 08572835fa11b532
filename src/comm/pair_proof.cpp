#include "comm/pair_proof.h"

#include "base/packer.h"
#include "job/sha256.h"

namespace sluice {

PairEnd make_pair_end(int process) { return {process, random_bytes(kPairNonceBytes)}; }

std::string pair_proof(const std::string& secret, const std::string& connection,
                       const PairEnd& from, const PairEnd& to) {
  Packer said;
  said.add(std::string("sluice pair")).add(connection);
  said.add(from.process).add(from.nonce).add(to.process).add(to.nonce);
  return bytes_of(hmac_sha256(secret, said.bytes()));
}

}  // namespace sluice
