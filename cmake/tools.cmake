# SPDX-License-Identifier: Apache-2.0
# The motet command. It sees include/motet.h and its own folder, never src/: whatever it does, a user's program can do.
# Its files are also static libraries, so that unit tests reach them; motet.c, which has main, goes there with main renamed.
set(motet_perf_names all_reduce_perf all_gather_perf broadcast_perf reduce_perf reduce_scatter_perf alltoall_perf gather_perf
                     scatter_perf sendrecv_perf hypercube_perf)

file(GLOB tool_sources CONFIGURE_DEPENDS tools/*.c)
list(FILTER tool_sources EXCLUDE REGEX "/tools/motet\\.c$")
if(NOT MOTET_TOOLS OR NOT tool_sources)
    return()
endif()

find_path(JANSSON_INCLUDE_DIR jansson.h REQUIRED)
find_library(JANSSON_LIBRARY jansson REQUIRED)
add_library(motet_tools STATIC ${tool_sources})
target_include_directories(motet_tools PUBLIC include tools ${JANSSON_INCLUDE_DIR})
target_link_libraries(motet_tools PUBLIC Threads::Threads ${JANSSON_LIBRARY} m)

if(NOT EXISTS ${CMAKE_SOURCE_DIR}/tools/motet.c)
    return()
endif()

add_library(motet_tools_table STATIC tools/motet.c)
target_compile_definitions(motet_tools_table PRIVATE main=motet_main)
target_compile_options(motet_tools_table PRIVATE -Wno-missing-prototypes)
target_link_libraries(motet_tools_table PUBLIC motet_tools)

add_executable(motet_command tools/motet.c)
set_target_properties(motet_command PROPERTIES OUTPUT_NAME motet)
target_link_libraries(motet_command PRIVATE motet_tools motet)
foreach(name ${motet_perf_names})
    add_custom_command(TARGET motet_command POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink motet ${name}
                       WORKING_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} VERBATIM)
endforeach()

# Manual pages and completion are printed by the command itself, from the tables that its --help comes from.
if(CMAKE_CROSSCOMPILING)
    return()
endif()
file(GLOB command_sources CONFIGURE_DEPENDS tools/cmd_*.c)
set(printed_dir ${CMAKE_BINARY_DIR}/printed)
file(MAKE_DIRECTORY ${printed_dir})

# print_page(FILE ARGUMENTS...): keeps what "motet help ARGUMENTS" prints.
function(print_page file)
    string(REPLACE ";" " " arguments "${ARGN}")
    add_custom_command(OUTPUT ${printed_dir}/${file} DEPENDS motet_command VERBATIM
                       COMMAND sh -c "'$<TARGET_FILE:motet_command>' help ${arguments} > '${printed_dir}/${file}'")
    set_property(GLOBAL APPEND PROPERTY motet_printed ${printed_dir}/${file})
endfunction()

print_page(motet.1 --man motet)
set(man_pages ${printed_dir}/motet.1)
foreach(source ${command_sources})
    string(REGEX REPLACE ".*/cmd_(.*)\\.c$" "\\1" name ${source})
    print_page(motet-${name}.1 --man ${name})
    list(APPEND man_pages ${printed_dir}/motet-${name}.1)
endforeach()
foreach(shell bash zsh fish)
    print_page(completion.${shell} --completion ${shell})
endforeach()
get_property(printed GLOBAL PROPERTY motet_printed)
add_custom_target(motet_printed ALL DEPENDS ${printed})
