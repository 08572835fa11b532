# `cmake --install`: headers, libraries, programs, and the files of find_package(sluice).
include(CMakePackageConfigHelpers)
# Other projects install a program named sluice too. Ours is recognized by a description in the binary.
install(CODE [[
  set(program "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/bin/sluice")
  if(EXISTS "${program}")
    file(STRINGS "${program}" ours LIMIT_COUNT 1 REGEX "Pipeline-parallel training in C.. on LibTorch")
    if(NOT ours)
      message(FATAL_ERROR "${program} belongs to another project; it is not replaced. "
              "Install elsewhere, for example: make install PREFIX=/opt/sluice")
    endif()
  endif()
]])
set(SLUICE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)

# Sets the search path of an installed file. `libraries` is the library folder relative to the file.
function(sluice_install_search_path target destination libraries)
  sluice_installed_paths(${libraries} paths)
  list(JOIN paths ":" paths)
  install(CODE "file(RPATH_SET FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${destination}/$<TARGET_FILE_NAME:${target}>\" NEW_RPATH \"${paths}\")")
endfunction()

install(TARGETS sluice_plan sluice_models_plan EXPORT sluicePlanTargets)
install(EXPORT sluicePlanTargets NAMESPACE sluice:: DESTINATION ${SLUICE_CMAKE_DIR})
if(TARGET sluice)
  install(TARGETS sluice sluice_models EXPORT sluiceTargets)
  install(EXPORT sluiceTargets NAMESPACE sluice:: DESTINATION ${SLUICE_CMAKE_DIR})
endif()
if(TARGET sluice_nccl)
  install(TARGETS sluice_nccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
foreach(library sluice_plan sluice_models_plan sluice sluice_models sluice_nccl)
  if(TARGET ${library})
    sluice_install_search_path(${library} ${CMAKE_INSTALL_LIBDIR} $ORIGIN)
  endif()
endforeach()
foreach(program sluice_cli sluice_run_cli)
  if(TARGET ${program})
    install(TARGETS ${program})
    sluice_install_search_path(${program} ${CMAKE_INSTALL_BINDIR} $ORIGIN/../${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The tool that `sluice graph tool` prints, for users who have the folder.
install(FILES ${PROJECT_SOURCE_DIR}/tools/sluice_export.py DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice)

# A LibTorch inside the source tree is installed: libraries for programs, and headers for code that uses
# sluice.
if(SLUICE_TORCH_IS_OURS)
  if(EXISTS ${LibTorch_DIR}/lib/libtorch_cuda.so)
    install(CODE "message(FATAL_ERROR \"${LibTorch_DIR} is a CUDA build inside the source tree, whose parts lie in several \"
      \"folders: it is not installed. Build with TORCH_DIR=/path/to/torch, a LibTorch outside of this folder, and install again\")"
      COMPONENT libtorch)
  endif()
  set(torch_folder ${CMAKE_INSTALL_LIBDIR}/${SLUICE_TORCH_SUBDIR})
  install(DIRECTORY ${LibTorch_DIR}/lib/ DESTINATION ${torch_folder}/lib COMPONENT libtorch
    PATTERN "libtorch_python*" EXCLUDE PATTERN "*_test.so" EXCLUDE PATTERN "libshm*" EXCLUDE)
  install(DIRECTORY ${LibTorch_DIR}/include ${LibTorch_DIR}/share DESTINATION ${torch_folder} COMPONENT libtorch)
  install(FILES ${LibTorch_DIR}/version.py DESTINATION ${torch_folder} COMPONENT libtorch OPTIONAL)
  install(FILES ${LibTorch_DIR}/build-version DESTINATION ${torch_folder} COMPONENT libtorch OPTIONAL)
  set(SLUICE_TORCH_HINT "\${CMAKE_CURRENT_LIST_DIR}/../../${SLUICE_TORCH_SUBDIR}")
else()
  set(SLUICE_TORCH_HINT "${LibTorch_DIR}")
endif()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/sluiceConfig.cmake.in
  ${PROJECT_BINARY_DIR}/sluiceConfig.cmake INSTALL_DESTINATION ${SLUICE_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sluiceConfig.cmake ${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindLibTorch.cmake DESTINATION ${SLUICE_CMAKE_DIR})
