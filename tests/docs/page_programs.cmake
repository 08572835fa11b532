# Runs the programs of the migration pages as they are printed. Each must train and print its
# losses. Needs WORK, SLUICE, SOURCE_DIR and PROGRAMS.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${WORK} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    string(JOIN " " line ${ARGN})
    message(FATAL_ERROR "failed (${failed}): ${line}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# A Llama with 32 small layers, under the name that a page uses.
file(READ ${SOURCE_DIR}/tests/reference/models/llama_untied/config.json config)
foreach(small "num_hidden_layers;32" "hidden_size;16" "head_dim;4" "intermediate_size;32")
  list(GET small 0 key)
  list(GET small 1 value)
  string(REGEX REPLACE "\"${key}\": [0-9]+" "\"${key}\": ${value}" config "${config}")
endforeach()
file(WRITE ${WORK}/config.json "${config}")
string(REPEAT "What a page prints is what its reader runs. " 8 text)
file(WRITE ${WORK}/text.txt "${text}")
file(WRITE ${WORK}/run.toml "[model]\nconfig = \"config.json\"\n[data]\nfiles = [\"text.txt\"]\nformat = \"text\"\ntokenizer = \"bytes\"\n"
  "[training]\nsteps = 1\nlocal_batch_size = 1\nseq_len = 16\n[checkpoint]\nfolder = \"saved\"\n[metrics]\nfolder = \"metrics\"\n")
run(${SLUICE} train run.toml)
file(RENAME ${WORK}/saved/step-00000001 ${WORK}/Llama-3.1-8B)

foreach(program IN LISTS PROGRAMS)
  run(${program})
  if(NOT output MATCHES "loss [0-9.]+\n(.*\n)?loss [0-9.]+\n")
    message(FATAL_ERROR "${program} printed:\n${output}")
  endif()
endforeach()
