# What version the sources are.
#   include(version.cmake)           sets STENCIL_VERSION, X.Y.Z of the newest tag vX.Y.Z, and STENCIL_PACKAGE_VERSION, with
#                                    what came after it: X.Y.Z, X.Y.Z+N.gHASH, or without a tag the next release's X.Y.Z~HASH,
#                                    as python/pyproject.toml names it
#   cmake -DOUT=FILE -P version.cmake   writes the commit into the header FILE, touching it only when it changed
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../../python/pyproject.toml next_release REGEX "^version = ")
string(REGEX REPLACE "version = \"(.*)\"" "\\1" next_release "${next_release}")
# In an archive that git made, git has put both here (.gitattributes); else git tells.
set(described [[$Format:%(describe:tags=true,match=v[0-9]*)$]])
set(hash [[$Format:%h$]])

function(version_ask_git result)
  execute_process(COMMAND git -C ${CMAKE_CURRENT_FUNCTION_LIST_DIR} describe ${ARGN}
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(answer "")
  endif()
  set(${result} "${answer}" PARENT_SCOPE)
endfunction()

if(hash MATCHES "Format")
  set(hash "")
  execute_process(COMMAND git -C ${CMAKE_CURRENT_LIST_DIR}/../.. rev-parse --show-cdup
    OUTPUT_VARIABLE up OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND up STREQUAL "") # not another repository that these sources lie in
    version_ask_git(described --tags --match v[0-9]*)
    version_ask_git(hash --always --exclude=* --dirty --abbrev=12)
  endif()
endif()
if(described MATCHES "^v([0-9]+\\.[0-9]+\\.[0-9]+)(-(.+))?$")
  set(STENCIL_VERSION ${CMAKE_MATCH_1})
  string(REPLACE "-" "." commits "${CMAKE_MATCH_3}")
  string(JOIN "+" STENCIL_PACKAGE_VERSION ${STENCIL_VERSION} ${commits})
else()
  set(STENCIL_VERSION ${next_release})
  string(REPLACE "-" "." commit "${hash}")
  string(JOIN "~" STENCIL_PACKAGE_VERSION ${STENCIL_VERSION} ${commit})
endif()
if(NOT hash)
  set(hash unknown)
endif()

if(CMAKE_SCRIPT_MODE_FILE)
  set(text "#define STENCIL_GIT_HASH \"${hash}\"\n")
  set(old "")
  if(EXISTS ${OUT})
    file(READ ${OUT} old)
  endif()
  if(NOT old STREQUAL text)
    file(WRITE ${OUT} "${text}")
  endif()
endif()
