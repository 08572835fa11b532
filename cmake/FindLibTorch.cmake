# Finds LibTorch by its files. Sets LibTorch_DIR (the folder with include/ and lib/) and LibTorch_VERSION, and
# defines the imported target sluice::libtorch.
#
# We do not use find_package(Torch), for two reasons. For a CUDA build of LibTorch it requires a CUDA toolkit with its
# compiler, even if we compile no CUDA. It also searches for MKL and other libraries that LibTorch already contains.
#
# Search order:
#   1. TORCH_DIR, a CMake or environment variable: a libtorch or torch folder, its share/cmake, its
#      share/cmake/Torch, or a site-packages folder. It is an error if it is set but holds no LibTorch.
#   2. LibTorch_HINTS (the LibTorch that an installed sluice was built with).
#   3. CMAKE_PREFIX_PATH and Torch_DIR.
#   4. python3 and python on the PATH, if they have torch.
#   5. LibTorch_VENV, a Python environment (set by sluice's own build).
#
# As a script, `cmake -P FindLibTorch.cmake`, it prints the folder, or fails.

set(LibTorch_MINIMUM 2.11)

# Returns the folder that holds include/ and lib/, given any of the folders listed above, or "" if there is
# none.
function(_libtorch_resolve given out)
  foreach(suffix "" "/torch" "/../.." "/../../.." "/libtorch")
    if(EXISTS "${given}${suffix}/share/cmake/Torch/TorchConfig.cmake"
       AND EXISTS "${given}${suffix}/include/ATen/ATen.h")
      get_filename_component(path "${given}${suffix}" ABSOLUTE)
      set(${out} "${path}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${out} "" PARENT_SCOPE)
endfunction()

function(_libtorch_version dir out)
  set(PACKAGE_FIND_VERSION 0)
  include("${dir}/share/cmake/Torch/TorchConfigVersion.cmake")
  set(${out} "${PACKAGE_VERSION}" PARENT_SCOPE)
endfunction()

# Gets torch's folder from the interpreter without importing torch.
function(_libtorch_from_python python out)
  execute_process(
    COMMAND "${python}" -c
      "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE place ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed OR place STREQUAL "")
    set(${out} "" PARENT_SCOPE)
  else()
    _libtorch_resolve("${place}" dir)
    set(${out} "${dir}" PARENT_SCOPE)
  endif()
endfunction()

function(_libtorch_search out)
  set(named "${TORCH_DIR}")
  if(named STREQUAL "")
    set(named "$ENV{TORCH_DIR}")
  endif()
  if(NOT named STREQUAL "")
    _libtorch_resolve("${named}" dir)
    if(dir STREQUAL "")
      message(FATAL_ERROR "TORCH_DIR is '${named}', which holds no LibTorch (no include/ATen/ATen.h with "
              "share/cmake/Torch/TorchConfig.cmake); name the unpacked libtorch folder, or the torch folder "
              "in a Python's site-packages")
    endif()
    _libtorch_version("${dir}" version)
    if(version VERSION_LESS LibTorch_MINIMUM)
      message(FATAL_ERROR "TORCH_DIR is '${named}' with LibTorch ${version}; sluice needs "
              "${LibTorch_MINIMUM} or newer")
    endif()
    set(${out} "${dir}" PARENT_SCOPE)
    return()
  endif()

  set(candidates "")
  foreach(place IN LISTS LibTorch_HINTS CMAKE_PREFIX_PATH Torch_DIR)
    _libtorch_resolve("${place}" dir)
    list(APPEND candidates ${dir})
  endforeach()
  if(candidates STREQUAL "")
    foreach(name python3 python)
      find_program(_libtorch_python_${name} ${name} NO_CACHE)
      if(_libtorch_python_${name})
        _libtorch_from_python("${_libtorch_python_${name}}" dir)
        list(APPEND candidates ${dir})
      endif()
    endforeach()
    if(LibTorch_VENV AND EXISTS "${LibTorch_VENV}/bin/python")
      _libtorch_from_python("${LibTorch_VENV}/bin/python" dir)
      list(APPEND candidates ${dir})
    endif()
  endif()
  foreach(dir IN LISTS candidates)
    _libtorch_version("${dir}" version)
    if(NOT version VERSION_LESS LibTorch_MINIMUM)
      set(${out} "${dir}" PARENT_SCOPE)
      return()
    endif()
    message(NOTICE "LibTorch ${version} in ${dir} is older than ${LibTorch_MINIMUM}: passed over")
  endforeach()
  set(${out} "" PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  _libtorch_search(dir)
  if(dir STREQUAL "")
    message(FATAL_ERROR "no LibTorch ${LibTorch_MINIMUM} or newer: neither TORCH_DIR nor python3 has one")
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${dir}")
  return()
endif()

# Keep the folder found by an earlier run unless TORCH_DIR has changed.
if(TORCH_DIR OR DEFINED ENV{TORCH_DIR} OR NOT EXISTS "${LibTorch_DIR}/include/ATen/ATen.h")
  _libtorch_search(_libtorch_dir)
  set(LibTorch_DIR "${_libtorch_dir}" CACHE PATH "LibTorch: the folder with include/ and lib/" FORCE)
endif()
if(LibTorch_DIR)
  _libtorch_version("${LibTorch_DIR}" LibTorch_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_DIR VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "set TORCH_DIR to a LibTorch ${LibTorch_MINIMUM} or newer, or put a python3 with torch on the PATH")

if(LibTorch_FOUND AND NOT TARGET sluice::libtorch)
  foreach(name c10 torch_cpu)
    add_library(sluice::${name} SHARED IMPORTED)
    set_target_properties(sluice::${name} PROPERTIES IMPORTED_LOCATION "${LibTorch_DIR}/lib/lib${name}.so")
  endforeach()
  add_library(sluice::libtorch INTERFACE IMPORTED)
  target_include_directories(sluice::libtorch INTERFACE
    "${LibTorch_DIR}/include" "${LibTorch_DIR}/include/torch/csrc/api/include")
  target_compile_definitions(sluice::libtorch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  target_compile_features(sluice::libtorch INTERFACE cxx_std_20)
  target_link_libraries(sluice::libtorch INTERFACE sluice::torch_cpu sluice::c10)
  if(EXISTS "${LibTorch_DIR}/lib/libtorch_cuda.so")
    # The CUDA library is loaded at run time when a device is requested. No symbol refers to it.
    target_link_options(sluice::libtorch INTERFACE "LINKER:--allow-shlib-undefined")
  endif()
endif()
