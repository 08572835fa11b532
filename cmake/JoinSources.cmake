# sluice_join_sources(TARGET COUNT) compiles the sources of a folder together, COUNT at a time. A source with
# torch spends at least half of its compile time on torch's headers, which are the same for all. Names in
# unnamed namespaces must therefore be unique within a folder.
option(SLUICE_JOIN_SOURCES "Compile several sources of a folder as one: faster from nothing, slower after a change" ON)
function(sluice_join_sources target most)
  if(NOT SLUICE_JOIN_SOURCES)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND in_${folder} ${source})
    list(LENGTH in_${folder} count)
    math(EXPR part "(${count} - 1) / ${most}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${part})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # the warning does not apply: no other source uses types from these unnamed namespaces
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()
