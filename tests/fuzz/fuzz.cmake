# The fuzz targets run their corpora in plan_tests; as fuzzers they are built on request:
#   CXX=clang++ cmake -B build-fuzz -G Ninja -DSLUICE_WITH_TORCH=OFF -DSLUICE_FUZZ=ON -DSLUICE_SANITIZE=address,undefined
#   cmake --build build-fuzz --target schedule_csv_fuzz
#   build-fuzz/bin/schedule_csv_fuzz -dict=tests/fuzz/schedule_csv.dict -max_total_time=60 new_inputs tests/fuzz/corpus/schedule_csv
target_compile_options(sluice_plan PRIVATE -fsanitize=fuzzer-no-link)
foreach(target schedule_csv_fuzz model_config_fuzz costs_fuzz)
  add_executable(${target} fuzz/${target}.cpp)
  target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
  target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${target} PRIVATE sluice_plan sluice_warnings)
endforeach()
foreach(name tokenizer_json tokenizer_encode)
  add_executable(${name}_fuzz fuzz/${name}_fuzz.cpp)
  target_compile_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name}_fuzz PRIVATE sluice_plan sluice_warnings nlohmann_json::nlohmann_json)
  target_compile_definitions(${name}_fuzz PRIVATE fuzz_${name}=LLVMFuzzerTestOneInput)
endforeach()
target_compile_definitions(model_config_fuzz PRIVATE fuzz_model_config=LLVMFuzzerTestOneInput)
target_compile_definitions(costs_fuzz PRIVATE fuzz_costs=LLVMFuzzerTestOneInput)
# A parser of io or checkpoint needs no torch: compiled into its target. MutationTest and ManifestTest exercise them
# everywhere else.
set(FUZZED_safetensors_fuzz io/safetensors_header.cpp io/safetensors_header_json.cpp)
set(FUZZED_manifest_fuzz ${FUZZED_safetensors_fuzz} checkpoint/manifest.cpp checkpoint/manifest_json.cpp
    checkpoint/manifest_rules.cpp checkpoint/manifest_seal.cpp)
foreach(fuzz io/fuzz/safetensors_fuzz data/fuzz/jsonl_row_fuzz data/fuzz/row_tokens_fuzz data/fuzz/token_file_fuzz checkpoint/fuzz/manifest_fuzz)
  get_filename_component(target ${fuzz} NAME)
  set(fuzzed ${FUZZED_${target}})
  list(TRANSFORM fuzzed PREPEND ${PROJECT_SOURCE_DIR}/src/)
  add_executable(${target} ${fuzz}.cpp ${fuzzed})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
  target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${target} PRIVATE sluice_plan sluice_warnings nlohmann_json::nlohmann_json)
endforeach()
