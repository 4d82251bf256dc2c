# SPDX-License-Identifier: Apache-2.0
# The motet command. It sees include/motet.h and its own folder, never src/: whatever it does, a user's program can do.
# All files but motet.c (main and the table of commands) are also a static library, so that unit tests reach them.
set(motet_perf_names all_reduce_perf all_gather_perf broadcast_perf reduce_perf reduce_scatter_perf alltoall_perf gather_perf
                     scatter_perf sendrecv_perf)

file(GLOB tool_sources CONFIGURE_DEPENDS tools/*.c)
list(FILTER tool_sources EXCLUDE REGEX "/tools/motet\\.c$")
if(MOTET_TOOLS AND tool_sources)
    find_path(JANSSON_INCLUDE_DIR jansson.h REQUIRED)
    find_library(JANSSON_LIBRARY jansson REQUIRED)
    add_library(motet_tools STATIC ${tool_sources})
    target_include_directories(motet_tools PUBLIC include tools ${JANSSON_INCLUDE_DIR})
    target_link_libraries(motet_tools PUBLIC Threads::Threads ${JANSSON_LIBRARY} m)

    if(EXISTS ${CMAKE_SOURCE_DIR}/tools/motet.c)
        add_executable(motet_command tools/motet.c)
        set_target_properties(motet_command PROPERTIES OUTPUT_NAME motet)
        target_link_libraries(motet_command PRIVATE motet_tools motet)
        foreach(name ${motet_perf_names})
            add_custom_command(TARGET motet_command POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink motet ${name}
                               WORKING_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} VERBATIM)
        endforeach()
    endif()
endif()
