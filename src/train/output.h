/* output.h - the output directory of a run: made, locked, and given back as it was when the run is
 * refused; and the other files a run writes, which must not be files it reads. */
#ifndef OC_OUTPUT_H
#define OC_OUTPUT_H

#include "config/config.h"

typedef struct oc_output {
    char *dir;
    char *made; /* the topmost directory that was made for it; NULL: all were there */
    int fd;     /* of dir, locked; -1: none */
} oc_output;

/* Makes the directory and takes it for this run; OC_E_EXISTS when another run has it. */
OC_NODISCARD oc_status oc_output_open(oc_output *out, const char *dir, oc_error *err);
/* keep false: directories that were made for the run go, unless something is in them. */
void oc_output_close(oc_output *o, bool keep);

/* --log and --trace: each a file of its own that is no input and nothing that --output holds. Call
 * it when the output directory is there. */
OC_NODISCARD oc_status oc_output_check_files(const oc_config *c, oc_error *err);

#endif
