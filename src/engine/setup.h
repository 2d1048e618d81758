/* setup.h - from a resolved configuration to a verified plan: the model, the device, the placement.
 *
 * The tokenizer is opened, since its bytes are planned bytes; of the data only names and first rows
 * are looked at. No arena is allocated and no weight is read here: `outcore plan` stops after this;
 * train and eval go on to open their data and a session on it. */
#ifndef OC_SETUP_H
#define OC_SETUP_H

#include "build/build.h"
#include "config/config.h"
#include "data/dataset.h"
#include "engine/source.h"
#include "model/program.h"
#include "run/run.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>

/* How far a table is on the device. */
typedef struct oc_homes_wish {
    int32_t resident;  /* so many blocks wholly, in the order of oc_homes_rank() */
    bool weights;      /* the weights of all */
    double optimizers; /* optimizer states of at least this part of the trained parameters */
} oc_homes_wish;

/* What is to be generated, as far as it is known before. */
typedef struct oc_pass_wish {
    int64_t longest;       /* tokens that a sequence may come to, its answer included */
    double prompt, answer; /* tokens of a sequence, on average */
    uint64_t sequences;    /* 0: not known */
} oc_pass_wish;

/* Seconds of a full pass by what it asks for, and what comes of them. */
typedef struct oc_pass_estimate {
    double link, arithmetic, memory;
    double pass_seconds, passes, tokens_per_second, link_bytes;
} oc_pass_estimate;

typedef struct oc_setup oc_setup;

/* Whoever generates: asked for its wish when the tokenizer is open, and for the host bytes that it
 * takes beside the arenas at the sizes of a build. */
typedef struct oc_generator {
    oc_status (*wish)(void *user, const oc_setup *s, oc_pass_wish *out, oc_error *err);
    uint64_t (*beside)(void *user, const oc_setup *s, const oc_build_spec *build);
    void *user;
    /* No passes, but evaluations of sequences that whoever it is fills, with the score of each
     * token (oc_session_score()): of build.seq tokens, as many as the longest at least; as many
     * sequences at a time as --micro-batch says, else a few thousand tokens' worth that fit. */
    bool scores;
} oc_generator;

struct oc_setup {
    const oc_config *config; /* borrowed */
    oc_source *source;       /* training: what is saved again; NULL: an evaluation */
    oc_model *model;
    oc_pool *pool;
    oc_device *device;               /* computes */
    oc_device *host;                 /* does the host's work: the same on a CPU */
    oc_device *lanes[OC_LANE_COUNT]; /* of these, or a stream: where a lane's ops go */
    oc_dtype dtype;
    oc_program_shape shape;
    oc_build_spec build;
    oc_block_homes *homes; /* build.place.homes */
    oc_plan_set *set;
    oc_build_ids ids;
    uint64_t minimum[OC_TIER_COUNT]; /* bytes of the smallest placement */
    uint64_t budget[OC_TIER_COUNT];  /* UINT64_MAX: none */
    oc_data_files files, eval_files; /* of --data and --eval-data */
    oc_tokenizer *tokenizer;         /* NULL: no data is given, or all of it is input_ids */
    bool built_in; /* the tokenizer has no files: it is asked for, or --init has none */
    /* planned, on the host, outside the arenas */
    uint64_t text_bytes;    /* tokenizer, data sets, feeds */
    uint64_t plan_bytes;    /* plans, executor, trace */
    uint64_t staging_bytes; /* while a model is read or written; and its small files */
    uint64_t foreign_bytes; /* libraries, code, stacks: measured at start, plus a reserve */
    int64_t global_batch;   /* sequences a step */
    bool train;
    bool no_memory;   /* to compute a placement in: what came of it is none */
    bool *starved;    /* that */
    char choice[640]; /* how "auto" was decided, for the log */

    const oc_generator *generator; /* NULL: no generation; borrowed */
    oc_pass_wish wish;
    oc_pass_estimate estimate;
};

/* notes receives one line per thing worth saying. Refusals over budget say the smallest change that
 * fits. */
OC_NODISCARD oc_status oc_setup_open(oc_setup **out, const oc_config *config, FILE *notes,
                                     oc_error *err);
/* The same for generation; g is borrowed. */
OC_NODISCARD oc_status oc_setup_open_generate(oc_setup **out, const oc_config *config,
                                              const oc_generator *g, FILE *notes, oc_error *err);
void oc_setup_close(oc_setup *s);

/* What another batch would cost and give: a row of the trade that `plan generate` shows. */
typedef struct oc_pass_trade {
    int32_t batch, resident; /* blocks whose weights stay */
    int32_t away_pages;      /* layers whose pages are on the host */
    bool fits;
    uint64_t device_bytes, kv_bytes;
    oc_pass_estimate estimate;
    const char *bound_by;
} oc_pass_trade;
/* Batches 1, 2, 4, .. up to the first that does not fit; returns how many. The set-up stays as it
 * is. */
int32_t oc_setup_trades(oc_setup *s, oc_pass_trade *out, int32_t most);

/* Choose the placement within the budgets (place.c). Sets build.place, minimum and choice. */
OC_NODISCARD oc_status oc_setup_place(oc_setup *s, oc_error *err);
/* The batch and the placement of a pass, by the set-up's wish (place_pass.c). */
OC_NODISCARD oc_status oc_setup_place_pass(oc_setup *s, oc_error *err);

/* Another placement than the one that was chosen, before a session is opened. place->homes stays
 * the caller's, and must outlive s. */
OC_NODISCARD oc_status oc_setup_place_as(oc_setup *s, const oc_placement *place, oc_error *err);

/* The table of bytes a tier and use (report.c). */
void oc_setup_print(const oc_setup *s, FILE *to);
OC_NODISCARD oc_status oc_setup_print_json(oc_setup *s, FILE *to, oc_error *err);
/* Of generation: what other batches would cost and give. */
void oc_setup_print_trades(oc_setup *s, FILE *to);
/* All ops of all plans, one a line. */
void oc_setup_print_ops(const oc_setup *s, FILE *to);

/* Bytes of a tier and use: arenas plus what is planned outside them. */
uint64_t oc_setup_use_bytes(const oc_setup *s, oc_tier tier, oc_use use);
uint64_t oc_setup_tier_bytes(const oc_setup *s, oc_tier tier);
/* What is planned on the host outside the arenas. */
uint64_t oc_setup_outside_bytes(const oc_setup *s);
/* Of that, the tokenizer, data sets and feeds, or what a generator holds, at the sizes of a build.
 */
uint64_t oc_setup_text_bytes(const oc_setup *s, const oc_build_spec *build);
/* Whether the device's memory is one that the host cannot read; and then, what a block on its way
 * there takes on the host. */
bool oc_setup_opaque(const oc_setup *s);
uint64_t oc_setup_bounce_bytes(const oc_setup *s);
/* What the configuration says of the executor: set, queues, pace, trace, debugging. */
oc_run_spec oc_setup_run_spec(const oc_setup *s);

#endif
