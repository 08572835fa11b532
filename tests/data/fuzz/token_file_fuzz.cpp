// The first byte picks the format, and for Megatron how many of the other bytes are the .bin file.
#include "data/fuzz/properties.h"

extern "C" int fuzz_token_file(const std::uint8_t* data, std::size_t size) {
  static const sluice::test::TempDirectory folder;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto format = static_cast<sluice::DataFormat>(3 + data[0] % 3);
  const std::size_t cut = format == sluice::DataFormat::kMegatron
                              ? std::min<std::size_t>(data[0], bytes.size())
                              : bytes.size();
  sluice::test::check_token_file(folder, format, bytes.substr(0, cut), bytes.substr(cut));
  return 0;
}
