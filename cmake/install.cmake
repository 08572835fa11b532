# `cmake --install`: headers, libraries, programs, and what find_package(sluice) needs.
include(CMakePackageConfigHelpers)
# Other projects install a program called sluice too. Ours has its description in its text.
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

install(TARGETS sluice_plan EXPORT sluicePlanTargets)
install(EXPORT sluicePlanTargets NAMESPACE sluice:: DESTINATION ${SLUICE_CMAKE_DIR})
if(TARGET sluice)
  install(TARGETS sluice EXPORT sluiceTargets)
  install(EXPORT sluiceTargets NAMESPACE sluice:: DESTINATION ${SLUICE_CMAKE_DIR})
endif()
if(TARGET sluice_nccl)
  install(TARGETS sluice_nccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
foreach(program sluice_cli sluice_run_cli)
  if(TARGET ${program})
    install(TARGETS ${program})
  endif()
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The tool that `sluice graph tool` prints, for who has the folder.
install(FILES ${PROJECT_SOURCE_DIR}/tools/sluice_export.py DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/sluiceConfig.cmake.in
  ${PROJECT_BINARY_DIR}/sluiceConfig.cmake INSTALL_DESTINATION ${SLUICE_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sluiceConfig.cmake ${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindLibTorch.cmake DESTINATION ${SLUICE_CMAKE_DIR})
