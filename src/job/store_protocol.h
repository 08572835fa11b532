// The protocol between a job's store and its clients.
//
// Both sides prove that they have the secret, without sending it. R and Q are fresh random numbers
// of 32 bytes, so a proof cannot be replayed:
//  server -> client   R
//  client -> server   Q, HMAC(secret, "sluice store 1, client" R Q)
//  server -> client   HMAC(secret, "sluice store 1, server" R Q), or closes
//
// Frames follow: length (4 bytes, little-endian), content, and 16 bytes of HMAC(key, frame number,
// content). Each direction has its own key, derived from the secret, R and Q. The content is not
// encrypted. Its values are those of base/packer.h:
//  client        ID, Ask, values
//  server        ID, Answer, values
//  control line  LineWord, values, in both directions, after Ask::kLine
//
// Violations throw Error(kPeer).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/packer.h"
#include "job/job_failure.h"

namespace sluice {

inline constexpr std::size_t kNonceBytes = 32, kProofBytes = 32;
inline constexpr std::size_t kMaxGreeting = kNonceBytes + kProofBytes;
inline constexpr std::size_t kMaxFrame = std::size_t{1} << 24;
inline constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;

enum class Ask : int {
  kSet,
  kGet,
  kWait,
  kHas,
  kAdd,
  kCompareSet,
  kAppend,
  kRemove,
  kCount,
  kLine
};
enum class Answer : int { kDone, kTimedOut, kFailed, kRefused };
// To the server: kBeat (status), kReport, kHung (rank, what, remedy), kFinish. From the server:
// kBeat (the process that would report a lost server), kAsk (send a kBeat now), kFailure, kWarning,
// kEnd (no failure).
enum class LineWord : int { kBeat, kReport, kFinish, kAsk, kFailure, kEnd, kHung, kWarning };

class Greeting {
 public:
  Greeting(std::string secret, std::string server_nonce, std::string client_nonce);
  std::string client_proof() const;
  std::string server_proof() const;
  std::string key(bool from_client) const;

 private:
  std::string secret_, nonces_;
};

class FrameWriter {
 public:
  explicit FrameWriter(std::string key) : key_(std::move(key)) {}
  // Throws Error(kUsage) above kMaxFrame bytes.
  std::string frame(const std::string& bytes);

 private:
  std::string key_;
  std::uint64_t number_ = 0;
};

class FrameReader {
 public:
  explicit FrameReader(std::string key) : key_(std::move(key)) {}
  // Removes the next complete frame from `bytes`.
  std::optional<std::string> take(std::string& bytes);

 private:
  std::string key_;
  std::uint64_t number_ = 0;
};

void put_failure(Packer& writer, const JobFailure& failure);
JobFailure take_failure(Unpacker& reader);

}  // namespace sluice
