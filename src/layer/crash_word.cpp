#include "layer/crash_word.h"

#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>
#include <iterator>
#include <mutex>

namespace sluice {
namespace {

// Member access through a null pointer faults at an address below this.
constexpr std::uintptr_t kNearNull = 1 << 16;

// The model "initial-exec" needs no allocation, which a signal handler must avoid.
[[gnu::tls_model("initial-exec")]] thread_local const std::string* crash_word = nullptr;

struct sigaction earlier_handler;

void say_word(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const bool is_null = info->si_code > 0 &&  // a fault, not a signal from kill()
                       reinterpret_cast<std::uintptr_t>(info->si_addr) < kNearNull;
  if (is_null && crash_word) {
    static const char begin[] = "sluice: error: ", end[] = "\n";
    const iovec line[] = {{const_cast<char*>(begin), sizeof(begin) - 1},
                          {const_cast<char*>(crash_word->data()), crash_word->size()},
                          {const_cast<char*>(end), sizeof(end) - 1}};
    [[maybe_unused]] const ssize_t written = writev(STDERR_FILENO, line, std::size(line));
  }
  // A fault repeats when this handler returns. A signal sent by a process is raised again.
  sigaction(SIGSEGV, &earlier_handler, nullptr);
  if (info->si_code <= 0) raise(SIGSEGV);
}

void install() {
  struct sigaction action = {};
  action.sa_sigaction = say_word;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, nullptr, &earlier_handler);
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace

CrashWord::CrashWord(const std::string& text) : outer_(crash_word) {
  static std::once_flag installed;
  std::call_once(installed, install);
  crash_word = &text;
}
CrashWord::~CrashWord() { crash_word = outer_; }

}  // namespace sluice
