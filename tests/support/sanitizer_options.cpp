// Compiled-in sanitizer options, so that programs behave alike under ctest and by hand. The
// suppressions (tests/*.supp) cover reports from inside libtorch, which is not instrumented.
extern "C" {
const char* __asan_default_options();
const char* __lsan_default_options();
const char* __tsan_default_options();
const char* __ubsan_default_options();

const char* __asan_default_options() { return "detect_stack_use_after_return=1"; }
const char* __lsan_default_options() {
  return "print_suppressions=0:suppressions=" SLUICE_TEST_DATA "/lsan.supp";
}
const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1:second_deadlock_stack=1:suppressions=" SLUICE_TEST_DATA
         "/tsan.supp";
}
const char* __ubsan_default_options() { return "print_stacktrace=1"; }
}
