# Compiles the C++ blocks of README.md and docs. COMMAND is the compiler with flags, without the
# source file. Also needs WORK and SOURCE_DIR.
file(GLOB pages RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/README.md ${SOURCE_DIR}/docs/*.md)
file(MAKE_DIRECTORY ${WORK})
execute_process(COMMAND awk -f tests/docs/page_blocks.awk ${pages} WORKING_DIRECTORY ${SOURCE_DIR}
  OUTPUT_FILE ${WORK}/blocks.cpp COMMAND_ERROR_IS_FATAL ANY)
file(READ ${WORK}/blocks.cpp blocks)
string(REGEX MATCHALL "#line " found "${blocks}")
list(LENGTH found count)
if(count LESS 15)
  message(FATAL_ERROR "only ${count} C++ blocks found in the pages")
endif()
separate_arguments(command UNIX_COMMAND "${COMMAND}")
execute_process(COMMAND ${command} -I${SOURCE_DIR}/tests/docs/pages -fsyntax-only ${WORK}/blocks.cpp
  RESULT_VARIABLE status ERROR_VARIABLE errors)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "a C++ block of a page does not compile:\n${errors}")
endif()
