# sluice_join_sources(TARGET COUNT) compiles the sources of a folder together, COUNT at a time: half and more of the time
# that a source takes which sees torch goes to the templates of its headers, and those are the same for all of them. So
# names in unnamed namespaces are unique in a folder.
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
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # what is unnamed is of no other source
  endif()
endfunction()
