# Mistakes at the library's door are said in a sentence, by static_assert, not by pages of templates.
# COMMAND: compiler with flags, up to the source. SOURCE_DIR.
set(expected
  ""
  "from_module\\(\\) takes a factory, \\[\\]\\(const sluice::Kept& kept\\)"
  "forward of from_module\\(\\) takes \\(Net&, const sluice::Values&\\)"
  "becomes one by sluice::mean_loss\\(\\)"
  "the body of sluice::run\\(\\) takes a sluice::Pipeline&"
  "forward of sluice::layer\\(\\) takes \\(Module&, const sluice::Values&\\)")
separate_arguments(command UNIX_COMMAND "${COMMAND}")
foreach(case RANGE 5)
  execute_process(COMMAND ${command} -DCASE=${case} -fsyntax-only ${SOURCE_DIR}/tests/install/compile_errors.cpp
    RESULT_VARIABLE status ERROR_VARIABLE said OUTPUT_QUIET)
  list(GET expected ${case} sentence)
  if(case EQUAL 0)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "what is right does not compile:\n${said}")
    endif()
  elseif(status EQUAL 0 OR NOT said MATCHES "${sentence}")
    message(FATAL_ERROR "case ${case} does not say '${sentence}':\n${said}")
  endif()
endforeach()
