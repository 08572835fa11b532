# Ordinary test programs run the fuzz targets on their corpora; `make fuzz` (tools/fuzz.sh) builds them as fuzzers, with
# clang. One by hand: build-fuzz/bin/schedule_csv_fuzz -dict=tests/fuzz/schedule_csv.dict NEW_INPUTS tests/fuzz/corpus/schedule_csv
foreach(target sluice_plan sluice_plan_loops sluice_models_plan sluice_models_plan_loops)
  target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
endforeach()
add_custom_target(fuzzers)
# Parsers of io and checkpoint need no torch, so their sources are compiled into the target.
function(sluice_fuzzer target source)
  add_executable(${target} ${source} ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE _fuzz "" name ${target})
  target_compile_definitions(${target} PRIVATE fuzz_${name}=LLVMFuzzerTestOneInput)
  target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
  target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${target} PRIVATE sluice_models_plan sluice_warnings nlohmann_json::nlohmann_json)
  add_dependencies(fuzzers ${target})
endfunction()
foreach(fuzz fuzz/schedule_csv fuzz/model_config fuzz/costs fuzz/planned_model fuzz/layer_costs fuzz/layout fuzz/event_file fuzz/adapter_config fuzz/tokenizer_json fuzz/tokenizer_encode fuzz/tokenizer_files
        archive/fuzz/graph_json archive/fuzz/zip_file io/fuzz/safetensors data/fuzz/jsonl_row data/fuzz/row_tokens data/fuzz/token_file
        data/fuzz/chat_program)
  get_filename_component(name ${fuzz} NAME)
  sluice_fuzzer(${name}_fuzz ${fuzz}_fuzz.cpp)
endforeach()
set(manifest manifest.cpp manifest_json.cpp manifest_rules.cpp manifest_seal.cpp)
list(TRANSFORM manifest PREPEND ${PROJECT_SOURCE_DIR}/src/checkpoint/)
sluice_fuzzer(manifest_fuzz checkpoint/fuzz/manifest_fuzz.cpp ${manifest})
