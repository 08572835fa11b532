#include "found_torch.h"

#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include "base/system_text.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libtorch_cpu.so";
constexpr const char* kSystemFolders[] = {"/usr/local/lib", "/usr/lib/x86_64-linux-gnu",
                                          "/usr/lib64", "/usr/lib", "/lib"};

template <typename T>
std::optional<T> at(const std::string& bytes, std::uint64_t offset) {
  T value;
  if (offset > bytes.size() || bytes.size() - offset < sizeof value) return std::nullopt;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

struct Linking {
  std::string paths;  // the program's RPATH or RUNPATH
  bool needs_torch = false;
};

std::string text_at(const std::string& bytes, std::uint64_t place) {
  if (place >= bytes.size()) return {};
  const char* const text = bytes.data() + place;
  return {text, strnlen(text, bytes.size() - place)};
}

Linking linking_of(const std::string& program) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
  const std::string bytes = read_text_or_empty(program, kMaxBytes);
  Linking linking;
  const auto header = at<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return linking;
  for (int i = 0; i < header->e_shnum; ++i) {
    const auto section = at<Elf64_Shdr>(bytes, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section || section->sh_type != SHT_DYNAMIC) continue;
    const auto names =
        at<Elf64_Shdr>(bytes, header->e_shoff + section->sh_link * sizeof(Elf64_Shdr));
    for (std::uint64_t entry = 0; names && entry < section->sh_size; entry += sizeof(Elf64_Dyn)) {
      const auto dynamic = at<Elf64_Dyn>(bytes, section->sh_offset + entry);
      if (!dynamic || dynamic->d_tag == DT_NULL) break;
      const std::uint64_t place = names->sh_offset + dynamic->d_un.d_val;
      if (dynamic->d_tag == DT_RUNPATH || dynamic->d_tag == DT_RPATH)
        linking.paths = text_at(bytes, place);
      if (dynamic->d_tag == DT_NEEDED && text_at(bytes, place) == kLibrary)
        linking.needs_torch = true;
    }
  }
  return linking;
}

std::string version_in(const fs::path& folder) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 16;
  const auto lines_of = [&](const char* name) {
    return split(read_text_or_empty((folder / name).string(), kMaxBytes), '\n');
  };
  for (const std::string& line : lines_of("version.py")) {
    if (!line.starts_with("__version__")) continue;
    const std::size_t begin = line.find('\'');
    if (begin != std::string::npos)
      return line.substr(begin + 1, line.find('\'', begin + 1) - begin - 1);
  }
  const std::vector<std::string> lines = lines_of("build-version");
  return lines.empty() ? "" : lines.front();
}

}  // namespace

std::optional<FoundTorch> find_torch(const std::string& program) {
  std::vector<std::string> folders;
  if (const char* const given = std::getenv("LD_LIBRARY_PATH")) folders = split(given, ':');
  const std::string origin = fs::path(program).parent_path().string();
  for (const std::string& path : split(linking_of(program).paths, ':'))
    folders.push_back(replace_all(replace_all(path, "${ORIGIN}", origin), "$ORIGIN", origin));
  folders.insert(folders.end(), std::begin(kSystemFolders), std::end(kSystemFolders));
  std::error_code unknown;
  for (const std::string& folder : folders) {
    if (folder.empty() || !fs::exists(fs::path(folder) / kLibrary, unknown)) continue;
    const fs::path whole = fs::weakly_canonical(fs::path(folder), unknown).parent_path();
    return FoundTorch{whole.string(), version_in(whole)};
  }
  return std::nullopt;
}

fs::path own_program() {
  std::error_code failed;
  fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (!failed) return program;
  throw Error(ErrorKind::kUsage,
              {.what = "cannot find the place of the running program: " + failed.message(),
               .where = "/proc/self/exe",
               .remedy = "mount /proc here (mount -t proc proc /proc)"});
}

fs::path sibling_program() { return own_program().parent_path() / "sluice-run"; }

FoundTorch require_torch(const std::string& command) {
  const std::string program = sibling_program().string();
  if (!fs::exists(program)) {
    throw Error(ErrorKind::kUsage,
                {.what = "'sluice " + command + "' needs the program 'sluice-run'",
                 .where = program + " does not exist",
                 .remedy = "build with LibTorch: cmake -DSLUICE_WITH_TORCH=ON"});
  }
  const std::string built_with = SLUICE_TORCH_VERSION, minor = minor_version(built_with);
  const std::string remedy = "pip install 'torch==" + minor +
                             ".*' --index-url https://download.pytorch.org/whl/cpu (the CPU "
                             "build), or put its lib folder into LD_LIBRARY_PATH";
  std::optional<FoundTorch> torch = find_torch(program);
  if (!torch) {
    throw Error(ErrorKind::kUsage, {.what = "'sluice " + command + "' needs LibTorch " + minor +
                                            ", which was not found",
                                    .where = program,
                                    .remedy = remedy});
  }
  if (torch->version.empty() || minor_version(torch->version) == minor) return *std::move(torch);
  throw Error(ErrorKind::kUsage, {.what = "'sluice " + command + "' was built with LibTorch " +
                                          built_with + ", but the one found is " + torch->version,
                                  .where = torch->folder,
                                  .remedy = remedy});
}

bool needs_torch(const std::string& program) { return linking_of(program).needs_torch; }

std::string minor_version(const std::string& version) {
  const std::size_t first = version.find('.');
  const std::size_t second = first == std::string::npos ? first : version.find('.', first + 1);
  return version.substr(0, second);
}

}  // namespace sluice
