/* claims.h - what a run writes, against what it reads, and against other runs: --log and --trace
 * are files of their own, each of one run at a time, and --output holds nothing that is read.
 *
 * Files are told apart by what they are, not by their names: links and mounts give them others. */
#ifndef OC_CLAIMS_H
#define OC_CLAIMS_H

#include "base/claim.h"
#include "config/config.h"
#include "data/dataset.h"

/* --log and --trace are no inputs and nothing that --output holds; --output holds no model, no
 * tokenizer and no configuration that the run starts from. Call it when the output directory is
 * there. */
OC_NODISCARD oc_status oc_claims_check(const oc_config *c, oc_error *err);
/* The same of data, once its files are found. */
OC_NODISCARD oc_status oc_claims_check_data(const oc_config *c, const oc_data_files *files,
                                            oc_error *err);

typedef struct oc_claims {
    oc_claim log, trace;
} oc_claims;

#define OC_CLAIMS_NONE                                                                             \
    { OC_CLAIM_NONE, OC_CLAIM_NONE }

/* Makes the files and takes them for this run; OC_E_EXISTS when another run has one. What they hold
 * stays. out: OC_CLAIMS_NONE. */
OC_NODISCARD oc_status oc_claims_take(oc_claims *out, const oc_config *c, oc_error *err);
/* keep false: files that were made for the run go. */
void oc_claims_release(oc_claims *c, bool keep);

#endif
