# SPDX-License-Identifier: Apache-2.0
# find_package(motet) gives the target motet::motet. The library hides its own dependencies, so there is nothing else to find.
include("${CMAKE_CURRENT_LIST_DIR}/motetTargets.cmake")
