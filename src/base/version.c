/* version.c - the version of the library. The build system holds it; the header must agree. */
#include "outcore/outcore.h"

#include <assert.h>

#define TEXT(x) #x
#define VERSION(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)
#define HEADER_VERSION VERSION(OUTCORE_VERSION_MAJOR, OUTCORE_VERSION_MINOR, OUTCORE_VERSION_PATCH)

static_assert(sizeof(HEADER_VERSION) == sizeof(OC_VERSION), "outcore.h and the build disagree");

const char *oc_version_string(void) { return OC_VERSION; }

int oc_version_number(void) {
    return OUTCORE_VERSION_MAJOR * 10000 + OUTCORE_VERSION_MINOR * 100 + OUTCORE_VERSION_PATCH;
}
