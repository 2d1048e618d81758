#include "config/config.h"

#include "base/fs.h"
#include "base/json.h"
#include "config/hub.h"
#include "config/options.h"
#include "config/output_names.h"
#include "model/program.h" /* OC_TOKEN_TILE */

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const char *const command_names[OC_CMD_COUNT] = {
    "train", "generate", "eval", "plan", "bench", "inspect", "tokenize", "plan generate"};

const char *oc_command_name(oc_command c) { return command_names[c]; }

void oc_config_defaults(oc_config *c) {
    c->dtype = OC_F32;
    c->device_memory = c->host_memory = UINT64_MAX;
    c->seed = 42;
    c->shuffle = c->packing = c->special = true;
    c->trace_bytes = 16 << 20;
    c->max_steps = -1;
    c->epochs = 3;
    c->token_tile = 0;
    c->keep = 2;
    c->optimizer = OC_ADAMW;
    c->lr = 5e-5;
    c->beta1 = 0.9;
    c->beta2 = 0.999;
    c->eps = 1e-8;
    c->clip = 1;
    c->schedule.kind = OC_LR_LINEAR;
    c->schedule.warmup_max_lr = -1;
    c->schedule.warmup_log = true;
    c->schedule.cos_min_ratio = 1e-4;
    c->schedule.cycle.max_lr = -1;
    c->schedule.cycle.first = 2000;
    c->schedule.cycle.second = c->schedule.cycle.stairs_second = -1;
    c->schedule.range.min_lr = 1e-3;
    c->schedule.range.size = 2000;
    c->schedule.range.rate = 1;
    c->loss_scale.initial_power = 16;
    c->loss_scale.window = 1000;
    c->loss_scale.hysteresis = 2;
    c->loss_scale.min_scale = 1;
    c->optimizer_ratio = 1;
    c->resident_blocks = -1;
    c->gen = (struct oc_generate_config){.top_p = 1,
                                         .repetition_penalty = 1,
                                         .page_tokens = 32,
                                         .prompt_tokens = 512,
                                         .logprobs = -1};
}

static void release_list(char ***list, int32_t *n) {
    while (*n > 0)
        free((*list)[--*n]);
    free(*list);
    *list = NULL;
}

void oc_config_free(oc_config *c) {
    if (!c) return;
    release_list(&c->data, &c->n_data);
    release_list(&c->eval_data, &c->n_eval_data);
    release_list(&c->freeze, &c->n_freeze);
    release_list(&c->train_only, &c->n_train_only);
    release_list(&c->gen.prompts, &c->gen.n_prompts);
    release_list(&c->gen.stops, &c->gen.n_stops);
    char *const texts[] = {c->dataset_dir, c->path,        c->model_dir,   c->init_dir,
                           c->output,      c->tokenizer,   c->config_file, c->log_path,
                           c->trace_path,  c->resume_path, c->nvme_path,   c->text,
                           c->input,       c->messages,    c->gen.system,  c->scores};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    free(c);
}

oc_origin oc_config_origin(const oc_config *c, const char *option) {
    const char *fixed;
    const oc_option *o = oc_options_find(option, strlen(option), &fixed);
    return o ? (oc_origin)c->origin[o - oc_options_at(0)] : OC_FROM_DEFAULT;
}

/* ---- resolving ---- */

static oc_status whole_quotient(int64_t train, const char *what, int64_t part, int32_t world,
                                int64_t *out, oc_error *err) {
    int64_t product;
    if (__builtin_mul_overflow(part, (int64_t)world, &product))
        return oc_fail(err, OC_E_OVERFLOW, "the batch of %s x %d ranks overflows", what, world);
    if (train % product != 0)
        return oc_fail(
            err, OC_E_INVALID,
            "train-batch %lld is no multiple of %s %lld x %d rank(s): change one of them",
            (long long)train, what, (long long)part, world);
    *out = train / product;
    return OC_OK;
}

/* --grad-accum has its limit in the table: what is left is a quotient. */
static oc_status check_accum(const oc_config *c, oc_error *err) {
    if (c->grad_accum <= OC_ACCUM_MOST || c->command == OC_CMD_EVAL) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "train-batch %lld is %lld micro-batches of %lld, more than a step's %d: use a "
                   "larger micro-batch",
                   (long long)c->train_batch, (long long)c->grad_accum, (long long)c->micro_batch,
                   OC_ACCUM_MOST);
}

/* train = micro x accum x world. Given values are > 0; `choose`: micro is left to the planner. */
static oc_status batch_equation(oc_config *c, int32_t world, oc_error *err) {
    bool choose = oc_config_origin(c, "micro-batch") != OC_FROM_DEFAULT && c->micro_batch == 0;
    int64_t train = c->train_batch, micro = c->micro_batch, accum = c->grad_accum;
    if (choose) {
        if (train > 0 && accum > 0) {
            OC_TRY(whole_quotient(train, "grad-accum", accum, world, &micro, err));
            c->micro_batch = micro;
        } else if (train == 0 && accum == 0) {
            c->grad_accum = 1;
        }
        return OC_OK;
    }
    if (train > 0 && micro > 0) {
        int64_t fits;
        OC_TRY(whole_quotient(train, "micro-batch", micro, world, &fits, err));
        if (accum > 0 && accum != fits)
            return oc_fail(
                err, OC_E_INVALID,
                "train-batch %lld is not micro-batch %lld x grad-accum %lld x %d rank(s): "
                "leave one of them out",
                (long long)train, (long long)micro, (long long)accum, world);
        accum = fits;
    } else if (train > 0) {
        if (accum == 0) accum = 1;
        OC_TRY(whole_quotient(train, "grad-accum", accum, world, &micro, err));
    } else {
        if (micro == 0) micro = 8;
        if (accum == 0) accum = 1;
        if (__builtin_mul_overflow(micro, accum, &train) ||
            __builtin_mul_overflow(train, (int64_t)world, &train))
            return oc_fail(err, OC_E_OVERFLOW, "micro-batch x grad-accum x ranks overflows");
    }
    c->train_batch = train;
    c->micro_batch = micro;
    c->grad_accum = accum;
    return check_accum(c, err);
}

/* org/name: its directory in the Hugging Face cache. */
static oc_status find_in_cache(char **dir, const char *option, FILE *notes, oc_error *err) {
    char *found = NULL;
    if (!*dir || oc_fs_exists(*dir) || !oc_hub_is_name(*dir)) return OC_OK;
    OC_TRY(oc_hub_find(&found, *dir, NULL, err));
    if (notes) fprintf(notes, "--%s %s is %s\n", option, *dir, found);
    free(*dir);
    *dir = found;
    return OC_OK;
}

static oc_status find_model(oc_config *c, FILE *notes, oc_error *err) {
    OC_TRY(find_in_cache(&c->model_dir, "model", notes, err));
    return find_in_cache(&c->tokenizer, "tokenizer", notes, err);
}

/* ---- outcore tokenize ---- */

static oc_status check_one_source(const oc_config *c, oc_error *err) {
    const struct {
        const char *name;
        bool given;
    } all[] = {{"text", c->text != NULL},
               {"input", c->input != NULL},
               {"messages", c->messages != NULL},
               {"data", c->n_data > 0}};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].given && first)
            return oc_fail(err, OC_E_INVALID, "--%s and --%s exclude each other", first,
                           all[i].name);
        if (all[i].given) first = all[i].name;
    }
    if (first) return OC_OK;
    return oc_fail(err, OC_E_INVALID,
                   "outcore tokenize needs what to tokenize: --text TEXT, --input FILE, "
                   "--messages FILE or --data PATH... --show-labels");
}

static oc_status check_tokenize(const oc_config *c, oc_error *err) {
    if (!c->model_dir && !c->tokenizer)
        return oc_fail(err, OC_E_INVALID,
                       "outcore tokenize needs --model DIR (its tokenizer.json), or --tokenizer "
                       "bytes");
    OC_TRY(check_one_source(c, err));
    if (c->generation_prompt && !c->messages)
        return oc_fail(err, OC_E_INVALID, "--generation-prompt goes with --messages only");
    if (!c->special && !c->text && !c->input)
        return oc_fail(err, OC_E_INVALID,
                       "--no-special goes with --text or --input: conversations get none, and "
                       "training data what training adds");
    if (c->show_labels && c->n_data == 0)
        return oc_fail(err, OC_E_INVALID, "--show-labels goes with --data PATH...");
    return OC_OK;
}

/* org/name where a path is due: a data set of the hub. */
static oc_status check_paths(char *const *paths, int32_t n, const char *option, oc_error *err) {
    for (int32_t i = 0; i < n; i++) {
        const char *name = paths[i];
        if (oc_fs_exists(name) || !oc_hub_is_name(name) || strchr(strchr(name, '/'), '.')) continue;
        return oc_fail(err, OC_E_NOTFOUND,
                       "--%s %s is no file or directory here; a data set of the hub is downloaded "
                       "with: hf download --repo-type dataset %s --local-dir DIR",
                       option, name, name);
    }
    return OC_OK;
}

static oc_status check_model_and_data(const oc_config *c, oc_error *err) {
    const char *name = command_names[c->command];
    if (c->model_dir && c->init_dir)
        return oc_fail(err, OC_E_INVALID, "--model and --init exclude each other");
    if (!c->model_dir && !c->init_dir)
        return oc_fail(err, OC_E_INVALID,
                       c->command == OC_CMD_EVAL
                           ? "outcore %s needs --model DIR"
                           : "outcore %s needs --model DIR, or --init DIR for random weights",
                       name);
    if (c->command == OC_CMD_PLAN) return OC_OK;
    if (c->n_data == 0) return oc_fail(err, OC_E_INVALID, "outcore %s needs --data PATH...", name);
    if (c->command == OC_CMD_TRAIN && !c->output)
        return oc_fail(err, OC_E_INVALID, "outcore train needs --output DIR");
    return OC_OK;
}

oc_status oc_config_check_early(const oc_config *c, oc_dtype dtype, int64_t micros, oc_error *err) {
    bool clip = c->clip > 0, many = micros > 1, scaled = dtype == OC_F16;
    if (!clip && !many && !scaled) return OC_OK;
    return oc_fail(err, OC_E_UNSUPPORTED,
                   "--early-updates on needs%s%s%s%s%s: otherwise a block's update waits for the "
                   "gradients of all",
                   clip ? " --clip-grad-norm 0" : "", clip && (many || scaled) ? "," : "",
                   many ? " --grad-accum 1" : "", many && scaled ? "," : "",
                   scaled ? " --dtype bf16 or fp32" : "");
}

/* As far as it is known before the model: the set-up knows the rest. */
static oc_status check_early(const oc_config *c, oc_error *err) {
    if (c->early_updates != OC_EARLY_ON) return OC_OK;
    return oc_config_check_early(c, c->has_dtype ? c->dtype : OC_F32, c->grad_accum, err);
}

static oc_status check_world(int32_t world, oc_error *err) {
    if (world == 1) return OC_OK;
    return oc_fail(err, OC_E_UNSUPPORTED,
                   "%d ranks: more than one is not available in this version", world);
}

/* Rows of one file into one file. */
static oc_status check_scores(const oc_config *c, oc_error *err) {
    if (c->command != OC_CMD_EVAL) return OC_OK;
    if (!c->scores && (c->resume || c->overwrite))
        return oc_fail(err, OC_E_INVALID, "--%s goes with --scores FILE only",
                       c->resume ? "resume" : "overwrite");
    if (!c->scores) return OC_OK;
    if (c->n_data != 1)
        return oc_fail(err, OC_E_INVALID, "--scores takes the rows of one --data file, not of %d",
                       c->n_data);
    if (c->dataset_dir)
        return oc_fail(err, OC_E_INVALID,
                       "--scores takes a file of rows, not a name of --dataset-dir %s",
                       c->dataset_dir);
    if (c->resume_path)
        return oc_fail(err, OC_E_INVALID,
                       "--resume %s: the rows of --scores are gone on with; leave \"%s\" out",
                       c->resume_path, c->resume_path);
    if (c->resume && strcmp(c->data[0], "-") == 0)
        return oc_fail(err, OC_E_INVALID,
                       "--resume needs the rows once more: --data must be a file");
    if (c->lost_messages == OC_LOST_DROP)
        return oc_fail(err, OC_E_INVALID,
                       "--lost-messages drop: a row of --scores is scored whole or is an error; "
                       "leave it out");
    return OC_OK;
}

static oc_status check_values(const oc_config *c, int32_t world, oc_error *err) {
    if (c->beta1 >= 1 || c->beta2 >= 1)
        return oc_fail(err, OC_E_INVALID, "--betas %g,%g: both must be below 1", c->beta1,
                       c->beta2);
    if (c->max_steps < 0 && c->epochs <= 0 && c->command != OC_CMD_EVAL)
        return oc_fail(err, OC_E_INVALID, "--epochs %g without --max-steps trains nothing",
                       c->epochs);
    if (c->eval_every > 0 && c->n_eval_data == 0 && c->command == OC_CMD_TRAIN)
        return oc_fail(err, OC_E_INVALID, "--eval-every needs --eval-data");
    if (c->max_steps == 0)
        return oc_fail(err, OC_E_INVALID,
                       "--max-steps 0 trains nothing: leave it out for --epochs");
    if (c->schedule.kind == OC_LR_DS_ONE_CYCLE && c->schedule.cycle.max_lr < 0)
        return oc_fail(err, OC_E_INVALID,
                       "--lr-schedule OneCycle needs the scheduler.params of a --config file");
    if (c->n_freeze > 0 && c->n_train_only > 0)
        return oc_fail(err, OC_E_INVALID, "--freeze and --train-only exclude each other");
    if (c->overwrite && c->resume)
        return oc_fail(err, OC_E_INVALID, "--resume and --overwrite exclude each other");
    return check_world(world, err);
}

static bool by_flag(const oc_config *c, const char *option) {
    return oc_config_origin(c, option) == OC_FROM_FLAG;
}

static void note_idle(const oc_config *c, FILE *notes) {
    if (!notes) return;
    if (by_flag(c, "trace-size") && !c->trace_path)
        fprintf(notes, "--trace-size has an effect with --trace only\n");
    if (by_flag(c, "no-packing") && c->scores)
        fprintf(notes, "--no-packing has no effect on --scores: rows are blind to each other\n");
    if (c->command == OC_CMD_EVAL && by_flag(c, "seed"))
        fprintf(notes, "--seed has no effect on an evaluation: nothing is drawn\n");
    if (c->command == OC_CMD_EVAL) return;
    if (c->zero_stage > 0)
        fprintf(notes, "ZeRO stage %d shards over ranks: with one rank it changes nothing\n",
                c->zero_stage);
    if (c->max_steps > 0 && oc_config_origin(c, "epochs") == OC_FROM_FLAG)
        fprintf(notes, "--max-steps %lld decides, not --epochs %g\n", (long long)c->max_steps,
                c->epochs);
    if (c->optimizer == OC_SGD &&
        (by_flag(c, "betas") || by_flag(c, "beta1") || by_flag(c, "beta2") || by_flag(c, "eps")))
        fprintf(notes, "the sgd optimizer has no betas and no eps: they have no effect\n");
    if (c->schedule.warmup_steps > 0 && by_flag(c, "warmup-ratio"))
        fprintf(notes, "--warmup-steps %lld decides, not --warmup-ratio %g\n",
                (long long)c->schedule.warmup_steps, c->schedule.warmup_ratio);
    if (by_flag(c, "keep") && c->save_every == 0)
        fprintf(notes, "--keep has an effect with --save-every only\n");
    if (c->save_model_only)
        fprintf(notes, "--save-model-only has no effect: in this version checkpoints hold the "
                       "model only\n");
    if (c->optimizer != OC_SGD && c->momentum > 0)
        fprintf(notes, "--momentum has an effect with --optimizer sgd only\n");
}

/* Of two lists of which only one may be there, a flag's goes before the file's. */
static void settle_patterns(oc_config *c, FILE *notes) {
    bool freeze = oc_config_origin(c, "freeze") == OC_FROM_FLAG;
    bool train = oc_config_origin(c, "train-only") == OC_FROM_FLAG;
    if (freeze == train || c->n_freeze == 0 || c->n_train_only == 0) return;
    if (notes)
        fprintf(notes, "--%s overrides the file's %s\n", freeze ? "freeze" : "train-only",
                freeze ? "train-only" : "freeze");
    if (freeze)
        release_list(&c->train_only, &c->n_train_only);
    else
        release_list(&c->freeze, &c->n_freeze);
}

/* A flag beats the file also where the file's option has another name. */
static void settle_rivals(oc_config *c, FILE *notes) {
    settle_patterns(c, notes);
    char **dirs[] = {&c->model_dir, &c->init_dir};
    static const char *const names[] = {"model", "init"};
    for (int i = 0; i < 2; i++) {
        if (!c->model_dir || !c->init_dir) break;
        if (oc_config_origin(c, names[i]) != OC_FROM_FILE ||
            oc_config_origin(c, names[1 - i]) != OC_FROM_FLAG)
            continue;
        if (notes) fprintf(notes, "--%s overrides the file's %s\n", names[1 - i], names[i]);
        free(*dirs[i]);
        *dirs[i] = NULL;
    }
    if (c->max_steps > 0 && oc_config_origin(c, "max-steps") == OC_FROM_FILE &&
        oc_config_origin(c, "epochs") == OC_FROM_FLAG) {
        if (notes) fprintf(notes, "--epochs overrides the file's max-steps\n");
        c->max_steps = -1;
    }
    if (c->schedule.warmup_steps > 0 && oc_config_origin(c, "warmup-steps") == OC_FROM_FILE &&
        oc_config_origin(c, "warmup-ratio") == OC_FROM_FLAG) {
        if (notes) fprintf(notes, "--warmup-ratio overrides the file's warmup-steps\n");
        c->schedule.warmup_steps = 0;
    }
    if (c->schedule.warmup_ratio > 0 && oc_config_origin(c, "warmup-ratio") == OC_FROM_FILE &&
        oc_config_origin(c, "warmup-steps") == OC_FROM_FLAG) {
        if (notes) fprintf(notes, "--warmup-steps overrides the file's warmup-ratio\n");
        c->schedule.warmup_ratio = 0;
    }
}

oc_status oc_config_resolve(oc_config *c, int32_t world, FILE *notes, oc_error *err) {
    if (c->command == OC_CMD_INSPECT) {
        if (c->path) return OC_OK;
        return oc_fail(err, OC_E_INVALID, "outcore inspect needs a PATH");
    }
    if (c->command == OC_CMD_TOKENIZE) {
        OC_TRY(check_tokenize(c, err));
        return find_model(c, notes, err);
    }
    settle_rivals(c, notes);
    if (oc_config_generates(c)) {
        OC_TRY(oc_config_resolve_generate(c, notes, err));
        OC_TRY(check_world(world, err));
        return find_model(c, notes, err);
    }
    OC_TRY(check_model_and_data(c, err));
    if (!c->dataset_dir) {
        OC_TRY(check_paths(c->data, c->n_data, "data", err));
        OC_TRY(check_paths(c->eval_data, c->n_eval_data, "eval-data", err));
    }
    OC_TRY(check_values(c, world, err));
    OC_TRY(check_scores(c, err));
    OC_TRY(find_model(c, notes, err));
    OC_TRY(batch_equation(c, world, err));
    OC_TRY(check_early(c, err));
    note_idle(c, notes);
    return OC_OK;
}

/* ---- run.json ---- */

/* Where nobody says so, generation_config.json does. */
static bool is_of_the_model(const char *name) {
    static const char *const names[] = {"do-sample", "temperature", "top-k",
                                        "top-p",     "min-p",       "repetition-penalty"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* What --config shall not bring back: what is resolved into the rest, how the run was started, and
 * the product of the batch equation, so that one of its factors can be overridden. */
static bool not_in_run(const oc_config *c, const oc_option *o) {
    const char *name = o->name;
    if (o->commands != OC_FOR_FILES && !(o->commands & OC_FOR(c->command))) return true;
    static const char *const out[] = {"config", "overwrite", "quiet", "json", "ops"};
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        if (strcmp(name, out[i]) == 0) return true;
    if (is_of_the_model(name) && oc_config_origin(c, name) == OC_FROM_DEFAULT) return true;
    return strcmp(name, "train-batch") == 0 && c->micro_batch > 0 && c->grad_accum > 0;
}

static void add_facts(json_t *run, const oc_run_facts *facts) {
    if (!facts) return;
    (void)json_object_set_new(run, "parameters", json_integer((json_int_t)facts->parameters));
    (void)json_object_set_new(run, "trained_parameters",
                              json_integer((json_int_t)facts->trained_parameters));
    (void)json_object_set_new(run, "token_tile_taken", json_integer(facts->token_tile));
}

oc_status oc_config_write(const oc_config *c, const oc_run_facts *facts, const char *path,
                          oc_error *err) {
    json_t *options = json_object();
    for (size_t i = 0; i < oc_options_count(); i++) {
        const oc_option *o = oc_options_at(i);
        if (not_in_run(c, o)) continue;
        json_t *v = oc_option_json(c, o);
        if (v) (void)json_object_set_new(options, o->name, v);
    }
    json_t *root = json_pack("{s:{s:s, s:s, s:o}}", "outcore", "version", OC_VERSION, "command",
                             command_names[c->command], "options", options);
    add_facts(json_object_get(root, "outcore"), facts);
    char *text = root ? oc_json_dump(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(root);
    if (!text) return oc_fail(err, OC_E_MEMORY, "no memory to write %s", path);
    size_t n = strlen(text);
    text[n] = '\n'; /* takes the NUL's place */
    oc_status s = oc_fs_write_atomic(path, text, n + 1, err);
    free(text);
    return s;
}

/* ---- the output directory ---- */

static bool is_checkpoint(const char *name) {
    static const char prefix[] = "checkpoint-";
    size_t n = sizeof prefix - 1;
    return strncmp(name, prefix, n) == 0 && name[n] &&
           strspn(name + n, "0123456789") == strlen(name + n);
}

static bool is_model_file(const char *name) {
    return strcmp(name, "model.safetensors") == 0 ||
           strcmp(name, "model.safetensors.index.json") == 0 || oc_output_is_unfinished(name);
}

/* The directory that the run starts from is the one it writes to. */
static bool starts_from_output(const oc_config *c) {
    const char *start = c->model_dir ? c->model_dir : c->init_dir;
    char *from = start ? realpath(start, NULL) : NULL, *output = realpath(c->output, NULL);
    size_t n = output ? strlen(output) : 0;
    /* --init may be the config.json itself */
    bool same = from && output && strncmp(from, output, n) == 0 &&
                (from[n] == 0 || strcmp(from + n, "/config.json") == 0);
    free(output);
    free(from);
    return same;
}

/* --model OUTPUT/checkpoint-N */
static bool model_in_checkpoints(const oc_config *c) {
    char *model = c->model_dir ? realpath(c->model_dir, NULL) : NULL;
    char *output = realpath(c->output, NULL);
    size_t n = output ? strlen(output) : 0;
    bool inside = model && output && strncmp(model, output, n) == 0 && model[n] == '/' &&
                  is_checkpoint(model + n + 1);
    free(model);
    free(output);
    return inside;
}

oc_status oc_config_check_output(const oc_config *c, FILE *notes, oc_error *err) {
    bool model = false, checkpoint = false;
    if (c->resume_path)
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "--resume %s: restoring training state is not available in this version",
                       c->resume_path);
    if (starts_from_output(c))
        return oc_fail(err, OC_E_INVALID,
                       "--output %s is the directory of --%s, which the run would overwrite: give "
                       "another --output",
                       c->output, c->model_dir ? "model" : "init");
    DIR *d = opendir(c->output);
    for (struct dirent *e; d && (e = readdir(d));) {
        model |= is_model_file(e->d_name);
        checkpoint |= is_checkpoint(e->d_name);
    }
    if (d) closedir(d);
    if (c->resume && checkpoint)
        return oc_fail(err, OC_E_UNSUPPORTED,
                       "--resume: %s holds checkpoints, and restoring training state is not "
                       "available in this version; --overwrite starts anew",
                       c->output);
    if (c->resume) {
        if (notes)
            fprintf(notes,
                    "warning: --resume: %s holds no checkpoint: starting from the beginning\n",
                    c->output);
        return OC_OK;
    }
    if (c->overwrite && model_in_checkpoints(c))
        return oc_fail(err, OC_E_INVALID,
                       "--model %s is a checkpoint of %s, which --overwrite removes: give another "
                       "--output",
                       c->model_dir, c->output);
    if ((model || checkpoint) && !c->overwrite)
        return oc_fail(err, OC_E_EXISTS,
                       "%s already holds %s: give another --output, or --overwrite, or --resume",
                       c->output, model ? "a model" : "checkpoints");
    return OC_OK;
}
