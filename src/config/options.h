/* options.h - the option table: one row an option, whether a flag or a key of a file sets it.
 *
 * For config.c, deepspeed.c, the help and the table test. A row's name is both its flag and, with
 * '-' as '_', its key in run.json. */
#ifndef OC_OPTIONS_H
#define OC_OPTIONS_H

#include "base/json.h"
#include "config/config.h"

typedef enum oc_option_type {
    OC_T_TEXT,
    OC_T_TEXTS,    /* one or more values, up to the next option; a list and then its count */
    OC_T_OPTIONAL, /* a text or nothing: --resume [PATH] */
    OC_T_ON,       /* bool, true when given */
    OC_T_OFF,      /* bool, false when given: --no-shuffle */
    OC_T_INT32,
    OC_T_INT64,
    OC_T_UINT64,
    OC_T_INT_AUTO, /* int64; "auto" is one below the least */
    OC_T_REAL,
    OC_T_PAIR, /* two reals side by side: "0.9,0.999" or two values */
    OC_T_SIZE,
    OC_T_CHOICE,
    OC_T_DTYPE,
    OC_T_DEVICE,
    OC_T_PACE
} oc_option_type;

enum { OC_FOR_FILES = 0, OC_FOR_ALL = (1 << OC_CMD_COUNT) - 1 };
#define OC_FOR(command) (1u << (command))

typedef struct oc_choice {
    const char *text; /* the first of equal values is the canonical one */
    unsigned value;
} oc_choice;

typedef struct oc_option {
    const char *name; /* canonical, without "--" */
    /* Space separated. "bf16=bf16": a flag that stands for that value. "packing!": the opposite of
     * a flag. "batch-size?": no alias, as it may mean several things; but refused, this is the
     * option that is suggested. */
    const char *aliases;
    const char *missing; /* not NULL: refused, and why */
    oc_option_type type;
    size_t offset;            /* of the field in oc_config */
    unsigned commands;        /* OC_FOR() bits; OC_FOR_FILES: no flag */
    double least, most;       /* of numbers */
    const oc_choice *choices; /* ends with a NULL text */
    const char *section, *argument, *help;
} oc_option;

size_t oc_options_count(void);
const oc_option *oc_options_at(size_t i);
/* Are these n and m bytes the same name? '_' and '-' are the same, here and below. */
bool oc_options_same_name(const char *a, size_t n, const char *b, size_t m);
/* By canonical name or alias. *fixed: the value an alias stands for, OC_OPPOSITE, or NULL. */
#define OC_OPPOSITE "!"
const oc_option *oc_options_find(const char *name, size_t n, const char **fixed);
/* The nearest name that `command` knows, or NULL. */
const char *oc_options_nearest(const char *name, size_t n, oc_command command);

/* An argument of another tool that is no option here: of Hugging Face's TrainingArguments
 * (options_trainer.c), or of the scripts, trainers and launchers that people come from
 * (options_tools.c), or of programs that generate (options_generate.c). */
typedef struct oc_foreign_arg {
    const char *name;     /* "lora-*": all that begin so */
    const char *accepted; /* values, with '|' between: others are refused; NULL: all pass */
    const char *why;      /* it has no effect, or another value is refused */
    const char *option;   /* not NULL: another value is this option's, and not refused */
} oc_foreign_arg;

size_t oc_trainer_count(void);
const oc_foreign_arg *oc_trainer_at(size_t i);
size_t oc_tools_count(void);
const oc_foreign_arg *oc_tools_at(size_t i);
/* Of programs that generate (options_generate.c), for generate and plan generate. */
size_t oc_generators_count(void);
const oc_foreign_arg *oc_generators_at(size_t i);
/* Of the tables that `command` goes by. NULL: none of that name that `command` takes. */
const oc_foreign_arg *oc_foreign_find(const char *name, size_t n, oc_command command);
const char *oc_foreign_nearest(const char *word, oc_command command);
bool oc_foreign_accepts(const oc_foreign_arg *a, const char *value);
/* Does Hugging Face's or DeepSpeed's option of that name know this value, which ours does not? */
bool oc_trainer_knows_value(const char *option, const char *value);

/* "true", "False", "1", ... as command lines spell them. false: another word. */
bool oc_truth_parse(const char *text, bool *truth);

void oc_config_defaults(oc_config *c);

/* Parse and store. Lists grow while the origin stays the same, and start anew when it changes. */
OC_NODISCARD oc_status oc_option_set(oc_config *c, const oc_option *o, const char *text,
                                     oc_origin origin, oc_error *err);
/* The same from a JSON value; where: "file.json: optimizer.params.lr". A flag's value stays: notes
 * gets a line. */
OC_NODISCARD oc_status oc_option_set_json(oc_config *c, const oc_option *o, const json_t *value,
                                          const char *where, FILE *notes, oc_error *err);
/* New reference; NULL: the field is unset, there is nothing to write. */
json_t *oc_option_json(const oc_config *c, const oc_option *o);

#endif
