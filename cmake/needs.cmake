# The headers of other packages. All that are missing are named at once, with what installs them.

set(missing)
set(debian)
set(fedora)

macro(cufence_need is_there header on_debian on_fedora)
  if(NOT ${is_there})
    list(APPEND missing ${header})
    list(APPEND debian ${on_debian})
    list(APPEND fedora ${on_fedora})
  endif()
endmacro()

find_path(UTHASH_INCLUDE uthash.h)
find_path(DWARF_INCLUDE dwarf.h) # DWARF constants, from elfutils
find_package(ZLIB QUIET)
find_path(JANSSON_INCLUDE jansson.h)
find_path(ZSTD_INCLUDE zstd.h)
cufence_need(UTHASH_INCLUDE uthash.h uthash-dev uthash-devel)
cufence_need(DWARF_INCLUDE dwarf.h libdw-dev elfutils-devel)
cufence_need(ZLIB_FOUND zlib.h zlib1g-dev zlib-devel)
cufence_need(JANSSON_INCLUDE jansson.h libjansson-dev jansson-devel)
cufence_need(ZSTD_INCLUDE zstd.h libzstd-dev libzstd-devel)
if(missing)
  list(JOIN missing ", " missing)
  list(JOIN debian " " debian)
  list(JOIN fedora " " fedora)
  message(FATAL_ERROR "headers not found: ${missing}\n"
    "  Debian, Ubuntu:  apt-get install ${debian}\n"
    "  Fedora, RHEL:    dnf install ${fedora}\n"
    "or run ./dev build, which installs them")
endif()
