// Test vectors of FIPS 180-4 (NIST's examples) and RFC 4231.
#include "job/sha256.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice {
namespace {

std::string text(const Digest& digest) { return hex(bytes_of(digest)); }
std::string repeated(int byte, std::size_t count) {
  return std::string(count, static_cast<char>(byte));
}

TEST(Sha256Test, GivesTheDigestsOfTheStandard) {
  EXPECT_EQ(text(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(text(sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(text(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(text(sha256(repeated('a', 1'000'000))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(HmacSha256Test, GivesTheCodesOfRfc4231) {
  EXPECT_EQ(text(hmac_sha256(repeated(0x0b, 20), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(text(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(text(hmac_sha256(repeated(0xaa, 20), repeated(0xdd, 50))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string counting;
  for (int byte = 1; byte <= 25; ++byte) counting += static_cast<char>(byte);
  EXPECT_EQ(text(hmac_sha256(counting, repeated(0xcd, 50))),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(text(hmac_sha256(repeated(0x0c, 20), "Test With Truncation")).substr(0, 32),
            "a3b6167473100ee06e0c796c2955552b");
  EXPECT_EQ(text(hmac_sha256(repeated(0xaa, 131),
                             "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(text(hmac_sha256(repeated(0xaa, 131),
                             "This is a test using a larger than block-size key and a larger than "
                             "block-size data. The key needs to be hashed before being used by the "
                             "HMAC algorithm.")),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Sha256Test, ComparesAllBytes) {
  EXPECT_TRUE(same_bytes("", ""));
  EXPECT_TRUE(same_bytes("abc", "abc"));
  for (const char* other : {"abd", "xbc", "ab", "abcd", ""}) EXPECT_FALSE(same_bytes("abc", other));
}

TEST(Sha256Test, DrawsSecretsThatDiffer) {
  std::set<std::string> secrets;
  for (int i = 0; i < 100; ++i) secrets.insert(random_secret());
  EXPECT_EQ(secrets.size(), 100u);
  for (const std::string& secret : secrets) {
    EXPECT_EQ(secret.size(), 64u);
    EXPECT_EQ(secret.find_first_not_of("0123456789abcdef"), std::string::npos) << secret;
  }
}

}  // namespace
}  // namespace sluice
