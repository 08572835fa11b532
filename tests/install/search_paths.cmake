# Checks the search paths of every program and library in FOLDERS. Also checks that
# tools/check_search_paths.sh rejects libraries whose paths make the loader search the working
# folder.
set(check ${SOURCE_DIR}/tools/check_search_paths.sh)
separate_arguments(FOLDERS)
foreach(folder IN LISTS FOLDERS)
  execute_process(COMMAND ${check} ${folder} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    message(FATAL_ERROR "${output}")
  endif()
endforeach()

# Links a library with this search path and checks it. `output` has the complaints, "" for none.
function(check_path path)
  file(REMOVE_RECURSE ${WORK})
  file(WRITE ${WORK}/empty.cpp "")
  file(MAKE_DIRECTORY ${WORK}/lib)
  execute_process(COMMAND ${CXX} -shared -o ${WORK}/lib/libwrong.so ${WORK}/empty.cpp "-Wl,-rpath,${path}"
    COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${check} ${WORK}/lib ${WORK}/source OUTPUT_VARIABLE output ERROR_VARIABLE output)
  set(output "${output}" PARENT_SCOPE)
endfunction()

foreach(path "/usr/lib:" ":/usr/lib" "/usr/lib::/opt" "lib" "./lib:/usr/lib" "/usr/lib:$ORIGINS/lib" "${WORK}/source/.venv/lib")
  check_path("${path}")
  if(output STREQUAL "")
    message(FATAL_ERROR "the search path '${path}' was let through")
  endif()
endforeach()
foreach(path "/usr/lib:/opt/torch/lib" "$ORIGIN/../lib" "$ORIGIN" "${WORK}/sources/lib")
  check_path("${path}")
  if(output)
    message(FATAL_ERROR "the search path '${path}' was refused: ${output}")
  endif()
endforeach()
