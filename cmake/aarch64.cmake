# Cross-builds for AArch64, and runs what was built with qemu: the preset `aarch64`. ./dev test aarch64 makes .deps/aarch64.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(root ${CMAKE_CURRENT_LIST_DIR}/../.deps/aarch64/root)
cmake_path(NORMAL_PATH root)
if(NOT EXISTS ${root})
  message(FATAL_ERROR "no libraries for AArch64 in ${root}: run ./dev test aarch64, or python3 cmake/emulated.py")
endif()
set(CMAKE_FIND_ROOT_PATH ${root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH) # cuda.h is the same for all
set(CMAKE_CROSSCOMPILING_EMULATOR ${root}/../qemu -L ${root})
