/* outcore.h - the public C interface of outcore. For programs that embed the engine.
 *
 * Structs are opaque and functions are only ever added within a major version. Today it tells the
 * version alone; sessions follow. Any thread may call it. */
#ifndef OUTCORE_H
#define OUTCORE_H

#ifdef __cplusplus
extern "C" {
#endif

#define OUTCORE_VERSION_MAJOR 0
#define OUTCORE_VERSION_MINOR 1
#define OUTCORE_VERSION_PATCH 0

/* Of the library that is linked, which may be newer than this header: "0.1.0". Never freed. */
const char *oc_version_string(void);
/* major * 10000 + minor * 100 + patch */
int oc_version_number(void);

#ifdef __cplusplus
}
#endif

#endif
