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
target_compile_definitions(model_config_fuzz PRIVATE fuzz_model_config=LLVMFuzzerTestOneInput)
target_compile_definitions(costs_fuzz PRIVATE fuzz_costs=LLVMFuzzerTestOneInput)
# Parsers of io need no torch: compiled into their targets, which MutationTest exercises everywhere else.
set(FUZZED_io/fuzz/safetensors_fuzz io/safetensors_header.cpp io/safetensors_header_json.cpp)
set(FUZZED_data/fuzz/jsonl_row_fuzz data/jsonl_row.cpp)
foreach(fuzz io/fuzz/safetensors_fuzz data/fuzz/jsonl_row_fuzz)
  get_filename_component(target ${fuzz} NAME)
  list(TRANSFORM FUZZED_${fuzz} PREPEND ${PROJECT_SOURCE_DIR}/src/)
  add_executable(${target} ${fuzz}.cpp ${FUZZED_${fuzz}})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
  target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${target} PRIVATE sluice_plan sluice_warnings nlohmann_json::nlohmann_json)
endforeach()
