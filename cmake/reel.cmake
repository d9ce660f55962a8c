# The libraries ReelFS stands on (all of them Debian 12 packages), compile flags, and the three
# functions by which every folder declares its targets.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(RocksDB REQUIRED)
find_package(GTest REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(benchmark REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
pkg_check_modules(FUSE3 REQUIRED IMPORTED_TARGET fuse3)
pkg_check_modules(URING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(ISCSI REQUIRED IMPORTED_TARGET libiscsi)
pkg_check_modules(BLKID REQUIRED IMPORTED_TARGET blkid)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(SYSTEMD REQUIRED IMPORTED_TARGET libsystemd)
pkg_check_modules(TCMALLOC REQUIRED IMPORTED_TARGET libtcmalloc_minimal)
pkg_check_modules(TOMLPLUSPLUS REQUIRED IMPORTED_TARGET tomlplusplus)
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
find_package(prometheus-cpp REQUIRED)
if(REEL_GRPC)
  find_package(gRPC REQUIRED)
endif()

add_library(reel_options INTERFACE)
target_include_directories(reel_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
target_compile_options(reel_options INTERFACE -Wall -Wextra -Werror)
target_compile_definitions(reel_options INTERFACE _FILE_OFFSET_BITS=64)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(reel_options INTERFACE -Wthread-safety)
endif()
# What a file calls itself does not tell where the checkout lies: so one checkout's objects, in
# ccache, are another one's, also where a unity build includes files by their whole paths.
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(REEL_SANITIZE)
  add_compile_options(-fsanitize=${REEL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${REEL_SANITIZE})
endif()

# The two daemons' malloc: where requests go through many threads it is a tenth faster than the C
# library's, and keeps less. (Sanitizers bring their own.)
add_library(reel_malloc INTERFACE)
if(NOT REEL_SANITIZE)
  target_link_libraries(reel_malloc INTERFACE PkgConfig::TCMALLOC)
endif()

# reel_library(NAME SOURCES … DEPS …)
function(reel_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC reel_options ${ARG_DEPS})
endfunction()

# reel_replaceable(FILE …): tests link something in these files' place, so each keeps an object of
# its own where others are compiled together (CMAKE_UNITY_BUILD).
function(reel_replaceable)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# reel_program(NAME SOURCES … DEPS … [INSTALL dir]): an executable, installed when a place is given.
function(reel_program name)
  cmake_parse_arguments(ARG "" "INSTALL" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE reel_options ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  if(ARG_INSTALL)
    # Addresses of functions are fixed at the start, and read-only from then on.
    target_link_options(${name} PRIVATE -Wl,-z,relro,-z,now)
    install(TARGETS ${name} RUNTIME DESTINATION ${ARG_INSTALL})
  endif()
endfunction()

# reel_test(NAME SOURCES … DEPS … [LABEL unit|sim|scenario|fuzz]): a GoogleTest binary; ctest runs
# it whole.
function(reel_test name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE reel_options ${ARG_DEPS} GTest::gtest GTest::gmock
                                        GTest::gtest_main)
  # Half of what is compiled is tests, in half the time without an optimizer.
  target_compile_options(${name} PRIVATE -O0)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/test)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT 900)
endfunction()
