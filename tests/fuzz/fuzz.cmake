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
foreach(parser safetensors_header jsonl_row)
  string(REPLACE "_header" "" target ${parser}_fuzz)
  file(GLOB parser_sources ${PROJECT_SOURCE_DIR}/src/io/${parser}*.cpp)
  add_executable(${target} io/fuzz/${target}.cpp ${parser_sources})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
  target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${target} PRIVATE sluice_plan sluice_warnings nlohmann_json::nlohmann_json)
endforeach()
