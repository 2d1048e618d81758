/* output.h - the output directory of a run: made, locked, and given back as it was when the run is
 * refused. */
#ifndef OC_OUTPUT_H
#define OC_OUTPUT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct oc_output {
    char *dir;
    size_t made; /* how much of dir is the topmost directory that was made for it; 0: none was */
    int fd;      /* of dir, locked; -1: none */
} oc_output;

/* Makes the directory and takes it for this run; OC_E_EXISTS when another run has it. */
OC_NODISCARD oc_status oc_output_open(oc_output *out, const char *dir, oc_error *err);
/* keep false: directories that were made for the run go, unless something is in them. */
void oc_output_close(oc_output *o, bool keep);

#endif
