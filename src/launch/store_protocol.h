// The protocol between a client of a job's store and its server.
//
// A connection starts with both proofs: the server sends a random number R (32 bytes); the client
// one of its own, Q, and HMAC(secret, "sluice store 1, client" R Q); the server, when that is
// right, HMAC(secret, "sluice store 1, server" R Q), else the end of the connection. So a proof can
// neither be used again nor be sent back, and the secret is never sent.
//
// Then frames: the number of bytes (4, little-endian), the bytes, 16 bytes of
// HMAC(key, number of the frame, bytes), with a key for each direction that follows from the secret
// and both random numbers: changed, repeated and missing frames are found. It is not encrypted.
// Inside are values of base/packer.h:
//   a client asks     integer ID, integer Ask, its values;  the server answers  ID, Answer, values
//   a control line    integer LineWord, its values, in both directions, after Ask::kLine
//
// Invariants:
//  1. Before both have proven themselves a side reads at most kMaxGreeting bytes; a frame has at
//     most kMaxFrame.
//  2. What does not hold throws Error(kPeer); nothing of such a frame is used.
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/packer.h"
#include "launch/job_failure.h"

namespace sluice {

inline constexpr std::size_t kNonceBytes = 32, kProofBytes = 32;
inline constexpr std::size_t kMaxGreeting = kNonceBytes + kProofBytes;
inline constexpr std::size_t kMaxFrame = std::size_t{1} << 24;
// Bytes that are asked of a socket in one call.
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
// From a line: kBeat (status), kReport (a failure), kHung (a rank, what, remedy), kFinish. From the
// server: kBeat (teller), kAsk (a beat at once), kFailure (the first), kWarning (for the user),
// kEnd (the line ends, which is not a failure).
enum class LineWord : int { kBeat, kReport, kFinish, kAsk, kFailure, kEnd, kHung, kWarning };

// Both random numbers and what follows from them.
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
  // Throws Error(kUsage) for more than kMaxFrame bytes.
  std::string frame(const std::string& bytes);

 private:
  std::string key_;
  std::uint64_t number_ = 0;
};

class FrameReader {
 public:
  explicit FrameReader(std::string key) : key_(std::move(key)) {}
  // Takes the next frame from the front of `bytes` once all of it is there.
  std::optional<std::string> take(std::string& bytes);

 private:
  std::string key_;
  std::uint64_t number_ = 0;
};

void put_failure(Packer& writer, const JobFailure& failure);
JobFailure take_failure(Unpacker& reader);

}  // namespace sluice
