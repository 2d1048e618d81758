/* Every key of DeepSpeed and every field of Hugging Face's TrainingArguments against the tables:
 * the lists come from those libraries themselves (tools/make_deepspeed_keys.py,
 * tools/make_trainer_arguments.py), so that one we do not know of makes a test fail. */
#include "config_case.h"

typedef struct row {
    char name[160], type[128], fallback[256];
} row;

/* false: the end. */
static bool next_row(FILE *f, row *r) {
    char line[1024];
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(
            sscanf(line, "%159[^\t]\t%127[^\t]\t%255[^\n]", r->name, r->type, r->fallback), 3);
        return true;
    }
    return false;
}

static FILE *open_rows(const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", OC_TEST_DATA, name);
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s cannot be opened", path);
    return f;
}

static const oc_key *key_of(const char *path) {
    for (size_t i = 0; i < oc_keys_count(); i++)
        if (strcmp(oc_keys_at(i)->path, path) == 0) return oc_keys_at(i);
    return NULL;
}

/* Its own row, or that of a block which is dealt with as a whole. */
static const oc_key *responsible(const char *path) {
    char name[256];
    snprintf(name, sizeof name, "%s", path);
    const oc_key *own = key_of(name);
    if (own) return own;
    for (char *dot; (dot = strrchr(name, '.'));) {
        *dot = 0;
        const oc_key *k = key_of(name);
        if (!k) continue;
        bool whole = k->kind == OC_K_SWITCHED || k->kind == OC_K_REFUSED ||
                     (k->kind == OC_K_LISTED && strcmp(k->expects, OC_EXPECTS_OBJECT) == 0);
        return whole ? k : NULL;
    }
    return NULL;
}

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static void scheduler_file(char *out, size_t n, const char *key, const char *value) {
    const char *type = "WarmupLR", *more = "";
    if (starts(key, "lr_range")) type = "LRRangeTest";
    if (strstr(key, "min_ratio")) type = "WarmupCosineLR";
    if (strcmp(key, "total_num_steps") == 0) type = "WarmupDecayLR";
    if (starts(key, "cycle_") || starts(key, "decay_")) {
        type = "OneCycle";
        more =
            strcmp(key, "cycle_momentum") == 0 ? ", \"cycle_min_lr\": 1e-5, \"cycle_max_lr\": 1e-4"
            : strcmp(key, "cycle_min_lr") == 0 ? ", \"cycle_max_lr\": 1, \"cycle_momentum\": false"
            : strcmp(key, "cycle_max_lr") == 0
                ? ", \"cycle_min_lr\": 0, \"cycle_momentum\": false"
                : ", \"cycle_min_lr\": 1e-5, \"cycle_max_lr\": 1e-4, \"cycle_momentum\": false";
    }
    snprintf(out, n, "{\"scheduler\": {\"type\": \"%s\", \"params\": {\"%s\": %s%s}}}", type, key,
             value, more);
}

/* {"a": {"b": value}} from "a.b", with what the key needs to be looked at. */
static void nest(char *out, size_t n, const char *path, const char *value) {
    static const char params[] = "scheduler.params.";
    char opening[512] = "{", closing[64] = "}";
    size_t depth = 1;
    const char *dot = strchr(path, '.');
    bool toggled = starts(path, "fp16.") || starts(path, "bf16.") || starts(path, "bfloat16.");
    if (starts(path, params)) {
        scheduler_file(out, n, path + sizeof params - 1, value);
        return;
    }
    if (toggled && strcmp(dot, ".enabled") != 0) {
        snprintf(out, n, "{\"%.*s\": {\"enabled\": true, \"%s\": %s}}", (int)(dot - path), path,
                 dot + 1, value);
        return;
    }
    for (; (dot = strchr(path, '.')); path = dot + 1) {
        size_t at = strlen(opening);
        snprintf(opening + at, sizeof opening - at, "\"%.*s\": {", (int)(dot - path), path);
        closing[depth++] = '}';
    }
    snprintf(out, n, "%s\"%s\": %s%s", opening, path, value, closing);
}

/* A default of the list as JSON text. */
static void json_value(char *out, size_t n, const char *text) {
    json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);
    snprintf(out, n, v ? "%s" : "\"%s\"", text);
    json_decref(v);
}

static void every_key_of_deepspeed_has_a_row(void **state) {
    (void)state;
    row r;
    int rows = 0, removed = 0;
    FILE *f = open_rows("deepspeed_keys.tsv");
    while (next_row(f, &r)) {
        const oc_key *k = responsible(r.name);
        if (!k) fail_msg("%s (%s, %s) has no row", r.name, r.type, r.fallback);
        bool own = strcmp(k->path, r.name) == 0;
        if (strcmp(r.type, "removed") == 0) {
            bool off =
                k->kind == OC_K_DEFAULT || k->kind == OC_K_SWITCHED || k->kind == OC_K_REFUSED;
            if (!own || !off || !k->hint || !strstr(k->hint, "removed"))
                fail_msg("%s: DeepSpeed has removed it, and its row does not say so", r.name);
            removed++;
        }
        const char *expects = strcmp(r.type, "bool") == 0    ? OC_EXPECTS_TRUTH
                              : strcmp(r.type, "int") == 0   ? OC_EXPECTS_WHOLE
                              : strcmp(r.type, "float") == 0 ? OC_EXPECTS_REAL
                                                             : NULL;
        if (own && k->kind == OC_K_LISTED && expects && strcmp(k->expects, expects) != 0)
            fail_msg("%s is %s there, and here %s", r.name, r.type, k->expects);
        if (own && strcmp(r.type, "block") == 0 && k->kind == OC_K_FIELD)
            fail_msg("%s is a block there", r.name);
        rows++;
    }
    fclose(f);
    assert_true(rows > 370 && removed == 14);
}

/* Rows of the table that this version of DeepSpeed does not know: names of old, which people still
 * bring. */
static void rows_beyond_deepspeed_are_these(void **state) {
    (void)state;
    static const char *const old[] = {"allgather_size", "aio.thread_count",
                                      "zero_optimization.cpu_offload_params"};
    size_t found = 0;
    for (size_t i = 0; i < oc_keys_count(); i++) {
        const char *path = oc_keys_at(i)->path;
        row r;
        bool there = false, listed = false;
        FILE *f = open_rows("deepspeed_keys.tsv");
        while (!there && next_row(f, &r))
            there = strcmp(r.name, path) == 0;
        fclose(f);
        for (size_t j = 0; j < sizeof old / sizeof *old; j++)
            listed |= strcmp(old[j], path) == 0;
        if (there == listed)
            fail_msg("%s: %s", path, there ? "is known there" : "is unknown there");
        found += listed;
    }
    assert_int_equal(found, sizeof old / sizeof *old);
}

/* What DeepSpeed does when a key is absent is what happens here, so writing it down is accepted. */
static void every_default_of_deepspeed_is_accepted(void **state) {
    (void)state;
    static const char *const refused[] = {"weight_quantization", "zero_optimization.zenflow",
                                          "optimizer.params.max_grad_norm",
                                          "scheduler.params.cycle_momentum"};
    row r;
    char json[1024], value[512];
    int tried = 0;
    FILE *f = open_rows("deepspeed_keys.tsv");
    while (next_row(f, &r)) {
        bool skip = strcmp(r.type, "block") == 0 || strcmp(r.type, "removed") == 0 ||
                    strcmp(r.fallback, "-") == 0;
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
            skip |= starts(r.name, refused[i]);
        if (skip) continue;
        json_value(value, sizeof value, strcmp(r.fallback, "\"\"") == 0 ? "" : r.fallback);
        nest(json, sizeof json, r.name, value);
        oc_config *c = parsed("");
        if (read_json(c, json) != OC_OK) fail_msg("%s: %s", json, error.message);
        oc_config_free(c);
        tried++;
    }
    fclose(f);
    assert_true(tried > 250);
}

static void a_value_of_no_meaning_is_refused_with_the_key(void **state) {
    (void)state;
    char json[1024];
    static const char *const values[] = {"{\"x\": 1}", "[[1]]", "\"2e8\"", "-7.5"};
    for (size_t i = 0; i < oc_keys_count(); i++) {
        const oc_key *k = oc_keys_at(i);
        if (k->kind == OC_K_BLOCK || k->kind == OC_K_TOGGLED) continue;
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            bool fits =
                k->kind == OC_K_LISTED && ((strcmp(k->expects, OC_EXPECTS_OBJECT) == 0 && j == 0) ||
                                           (strcmp(k->expects, OC_EXPECTS_LIST) == 0 && j == 1) ||
                                           (strcmp(k->expects, OC_EXPECTS_TEXT) == 0 && j == 2) ||
                                           (strcmp(k->expects, OC_EXPECTS_REAL) == 0 && j == 3));
            fits |= k->kind == OC_K_SWITCHED && j == 0; /* off, as "enabled" is absent */
            nest(json, sizeof json, k->path, values[j]);
            oc_config *c = parsed("");
            oc_status s = read_json(c, json);
            bool named = strstr(error.message, k->path) != NULL;
            if ((s == OC_OK) != fits || (!fits && !named))
                fail_msg("%s: %s -> %d %s", k->path, json, s, error.message);
            oc_config_free(c);
        }
    }
}

/* Keys whose meaning hangs on others. */
static const struct {
    const char *path, *json;
} special[] = {
    {"optimizer.type", "{\"optimizer\": {\"type\": \"SGD\"}}"},
    {"optimizer.params.adam_w_mode",
     "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false}}}"},
    {"scheduler.type", "{\"scheduler\": {\"type\": \"WarmupLR\"}}"},
    {"scheduler.params.warmup_max_lr",
     "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_max_lr\": 0.5}}}"},
    {"scheduler.params.warmup_num_steps",
     "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 5}}}"},
    {"scheduler.params.warmup_type",
     "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_type\": \"linear\"}}}"},
    {"scheduler.params.cycle_momentum",
     "{\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 1e-5, "
     "\"cycle_max_lr\": 1, \"cycle_momentum\": false}}}"},
    {"fp16.enabled", "{\"fp16\": {\"enabled\": true}}"},
    {"bf16.enabled", "{\"bf16\": {\"enabled\": true}}"},
    {"bfloat16.enabled", "{\"bfloat16\": {\"enabled\": true}}"},
    {"zero_optimization.stage", "{\"zero_optimization\": {\"stage\": 2}}"},
    {"zero_optimization.cpu_offload",
     "{\"zero_optimization\": {\"stage\": 2, \"cpu_offload\": true}}"},
    {"zero_optimization.cpu_offload_param",
     "{\"zero_optimization\": {\"stage\": 3, \"cpu_offload_param\": true}}"},
    {"zero_optimization.offload_param.device",
     "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}}}"},
    {"zero_optimization.offload_optimizer.device",
     "{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\"}}}"},
    {"activation_checkpointing.cpu_checkpointing",
     "{\"activation_checkpointing\": {\"cpu_checkpointing\": true}}"},
};

/* A value of a key that is not its default, and the rest of the file that gives it a meaning. */
static void key_sample(const oc_key *k, char *out, size_t n) {
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        if (strcmp(special[i].path, k->path) != 0) continue;
        snprintf(out, n, "%s", special[i].json);
        return;
    }
    char word[64];
    const char *value = "12345";
    if (k->kind == OC_K_LISTED) {
        value = strcmp(k->expects, OC_EXPECTS_TRUTH) == 0    ? "true"
                : strcmp(k->expects, OC_EXPECTS_TEXT) == 0   ? "\"word\""
                : strcmp(k->expects, OC_EXPECTS_LIST) == 0   ? "[1]"
                : strcmp(k->expects, OC_EXPECTS_OBJECT) == 0 ? "{\"a\": 1}"
                                                             : "12345";
        if (sscanf(k->expects, "one of %60[^,]", word + 1) == 1) {
            word[0] = '"';
            memcpy(word + strlen(word), "\"", 2);
            value = word;
        }
    }
    if (k->kind == OC_K_REFUSED || k->kind == OC_K_SWITCHED) value = "{\"enabled\": true}";
    if (k->kind == OC_K_FIELD) {
        const char *fixed;
        const oc_option *o = oc_options_find(k->option, strlen(k->option), &fixed);
        assert_non_null(o);
        value = o->type == OC_T_PAIR   ? "[0.5, 0.6]"
                : o->type == OC_T_ON   ? "true"
                : o->type == OC_T_REAL ? "0.25"
                                       : "3";
    }
    nest(out, n, k->path, value);
}

/* What the rest of the file does without the key. */
static void key_background(const oc_key *k, char *out, size_t n) {
    const char *json = "{}";
    if (starts(k->path, "fp16.") && !strstr(k->path, "enabled"))
        json = "{\"fp16\": {\"enabled\": true}}";
    if (starts(k->path, "zero_optimization.o") ||
        starts(k->path, "zero_optimization.cpu_offload_param"))
        json = "{\"zero_optimization\": {\"stage\": 3}}";
    if (strcmp(k->path, "zero_optimization.cpu_offload") == 0)
        json = "{\"zero_optimization\": {\"stage\": 2}}";
    snprintf(out, n, "%s", json);
}

static void every_key_changes_the_configuration_or_is_listed_or_refused(void **state) {
    (void)state;
    char json[1024], background[128];
    for (size_t i = 0; i < oc_keys_count(); i++) {
        const oc_key *k = oc_keys_at(i);
        if (k->kind == OC_K_BLOCK || k->kind == OC_K_TOGGLED) continue;
        oc_config *c = parsed(""), *plain = parsed("");
        key_background(k, background, sizeof background);
        assert_int_equal(read_json(plain, background), OC_OK);
        key_sample(k, json, sizeof json);
        oc_status s = read_json(c, json);
        bool listed = strstr(notes_text, k->path) != NULL;
        bool refused = s == OC_E_UNSUPPORTED && strstr(error.message, k->path) != NULL;
        bool changed = s == OC_OK && !same_json(c, plain);
        bool right = k->kind == OC_K_LISTED                             ? s == OC_OK && listed
                     : k->kind == OC_K_FIELD || k->kind == OC_K_SPECIAL ? changed
                                                                        : refused;
        if (!right) fail_msg("%s: %s -> %d %s %s", k->path, json, s, error.message, notes_text);
        if (k->kind == OC_K_REFUSED || k->kind == OC_K_SWITCHED) {
            nest(json, sizeof json, k->path, "{\"enabled\": false, \"anything\": 1}");
            assert_int_equal(read_json(plain, json), OC_OK);
            nest(json, sizeof json, k->path, "{\"anything\": 1}");
            assert_int_equal(read_json(plain, json),
                             k->kind == OC_K_SWITCHED ? OC_OK : OC_E_UNSUPPORTED);
            assert_true(k->kind == OC_K_REFUSED || strstr(notes_text, k->path));
        }
        oc_config_free(c);
        oc_config_free(plain);
    }
}

static bool is_scheduler(const oc_key *k) { return starts(k->path, "scheduler."); }

/* The line has room for all of them. */
static void all_keys_without_effect_fit_in_the_line(void **state) {
    (void)state;
    json_t *root = json_object();
    for (size_t i = 0; i < oc_keys_count(); i++) {
        const oc_key *k = oc_keys_at(i);
        if (k->kind != OC_K_LISTED || is_scheduler(k)) continue;
        char path[256], *save = NULL;
        json_t *at = root;
        snprintf(path, sizeof path, "%s", k->path);
        char *part = strtok_r(path, ".", &save), *next;
        for (; (next = strtok_r(NULL, ".", &save)); part = next) {
            json_t *inner = json_object_get(at, part);
            if (!inner) json_object_set_new(at, part, inner = json_object());
            at = inner;
        }
        json_object_set_new(at, part, json_string("auto"));
    }
    json_object_set_new(json_object_get(root, "bf16"), "enabled", json_true());
    json_object_set_new(json_object_get(root, "bfloat16"), "enabled", json_true());
    char *text = json_dumps(root, 0);
    oc_config *c = parsed("");
    if (read_json(c, text) != OC_OK) fail_msg("%s", error.message);
    for (size_t i = 0; i < oc_keys_count(); i++) {
        const oc_key *k = oc_keys_at(i);
        if (k->kind == OC_K_LISTED && !is_scheduler(k) && !strstr(notes_text, k->path))
            fail_msg("%s is not named", k->path);
    }
    oc_config_free(c);
    free(text);
    json_decref(root);
}

/* ---- the command line ---- */

/* An option, one of its aliases, or an argument that passes or is refused by name. */
static void every_argument_of_the_trainer_is_known(void **state) {
    (void)state;
    row r;
    char line[512], said[256];
    int rows = 0, aliases = 0;
    FILE *f = open_rows("trainer_arguments.tsv");
    while (next_row(f, &r)) {
        const char *fixed;
        const oc_option *o = oc_options_find(r.name, strlen(r.name), &fixed);
        const oc_foreign_arg *idle = oc_foreign_find(r.name, strlen(r.name), OC_CMD_TRAIN);
        oc_config *c;
        rows++;
        if (!o && !idle) fail_msg("%s (%s, %s) is unknown", r.name, r.type, r.fallback);
        snprintf(line, sizeof line, "--%s=xyzzy", r.name);
        if (idle && idle->accepted) {
            assert_int_equal(parse(&c, OC_CMD_TRAIN, line), OC_E_UNSUPPORTED);
            if (!strstr(error.message, idle->name) || !strstr(error.message, idle->why))
                fail_msg("%s: %s", r.name, error.message);
        } else if (idle) {
            c = parsed(line);
            if (!strstr(notes_text, idle->name) || !strstr(notes_text, idle->why))
                fail_msg("%s: \"%s\"", r.name, notes_text);
            oc_config_free(c);
        }
        if (strcmp(r.fallback, "-") == 0 || (o && !idle && strcmp(r.fallback, "none") == 0))
            continue;
        if (strcmp(r.name, "warmup_steps") == 0) continue; /* a float there, as it may be a ratio */
        snprintf(line, sizeof line, "--%s=%s", r.name,
                 strcmp(r.fallback, "\"\"") ? r.fallback : "");
        if (strcmp(r.name, "save_steps") == 0 || strcmp(r.name, "eval_steps") == 0)
            snprintf(line, sizeof line, "--%s=500", r.name);
        c = parsed(line); /* what it does when nothing is said may be said */
        snprintf(said, sizeof said, "--%s is --%s", r.name, o ? o->name : "");
        if (!idle && strcmp(r.name, o->name) != 0) {
            if (!strstr(notes_text, said)) fail_msg("%s: \"%s\"", said, notes_text);
            aliases++;
        }
        oc_config_free(c);
    }
    fclose(f);
    assert_true(rows > 110 && aliases > 15);
}

static void every_alias_names_its_option(void **state) {
    (void)state;
    char line[256], said[256];
    int aliases = 0;
    for (size_t i = 0; i < oc_options_count(); i++) {
        const oc_option *o = oc_options_at(i);
        for (const char *a = o->aliases; *a; a += *a == ' ') {
            size_t n = strcspn(a, " "), word = strcspn(a, " =?!");
            bool truth = o->type == OC_T_ON || o->type == OC_T_OFF || word < n;
            const char *value =
                truth                    ? "true"
                : o->type == OC_T_REAL   ? "0.5"
                : o->type == OC_T_PAIR   ? "0.5,0.5"
                : o->type == OC_T_CHOICE ? o->choices[0].text
                : o->type == OC_T_DTYPE  ? "bf16"
                : o->type == OC_T_TEXT || o->type == OC_T_TEXTS || o->type == OC_T_OPTIONAL ? "word"
                                                                                            : "3";
            int command = OC_CMD_EVAL; /* where there is no training, no argument of it is idle */
            if (!(o->commands & OC_FOR(command))) command = OC_CMD_TRAIN;
            while (!(o->commands & OC_FOR(command)))
                command = (command + 1) % OC_CMD_COUNT;
            oc_config *c;
            snprintf(line, sizeof line, "--%.*s=%s", (int)word, a, value);
            if (a[word] == '?') {
                snprintf(said, sizeof said, "did you mean --%s", o->name);
                assert_int_equal(parse(&c, (oc_command)command, line), OC_E_INVALID);
                if (!strstr(error.message, said)) fail_msg("%s: %s", said, error.message);
                a += n;
                continue;
            }
            if (parse(&c, (oc_command)command, line) != OC_OK)
                fail_msg("%s: %s", line, error.message);
            snprintf(said, sizeof said, "--%.*s is --%s", (int)word, a, o->name);
            if (!strstr(notes_text, said)) fail_msg("%s: \"%s\"", said, notes_text);
            oc_config_free(c);
            aliases++;
            a += n;
        }
    }
    assert_true(aliases > 30);
}

/* The options that the documentation promises: each is there, or refused by name. */
static void every_promised_option_is_there_or_refused_by_name(void **state) {
    (void)state;
    static const struct {
        oc_command command;
        const char *names;
    } rows[] = {
        {OC_CMD_TRAIN,
         "model init data output config deepspeed device device-memory host-memory nvme-path dtype "
         "threads seed log trace json quiet pace serial-lanes seq-length micro-batch grad-accum "
         "max-steps epochs lr lr-schedule warmup-steps weight-decay betas eps clip-grad-norm "
         "no-shuffle no-packing eval-data eval-every save-every keep resume overwrite tokenizer "
         "save-model-only io token-tile"},
        {OC_CMD_EVAL,
         "model data seq-length micro-batch dtype device-memory host-memory json token-tile"},
        {OC_CMD_PLAN,
         "model init data output device-memory host-memory nvme-path json micro-batch token-tile"},
        {OC_CMD_GENERATE, "model prompt chat max-new-tokens batch temperature top-k top-p "
                          "repetition-penalty stop resident-blocks input output config device "
                          "device-memory host-memory nvme-path dtype threads seed trace json quiet "
                          "pace serial-lanes"},
        {OC_CMD_PLAN_GENERATE, "model init max-new-tokens batch device-memory host-memory "
                               "nvme-path json resident-blocks kv-home"},
        {OC_CMD_TOKENIZE, "model data"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char names[1024], *save = NULL;
        snprintf(names, sizeof names, "%s", rows[i].names);
        for (char *w = strtok_r(names, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
            const char *fixed;
            const oc_option *o = oc_options_find(w, strlen(w), &fixed);
            if (!o) fail_msg("--%s is unknown", w);
            if (!(o->commands & OC_FOR(rows[i].command)))
                fail_msg("--%s is not an option of outcore %s", w,
                         oc_command_name(rows[i].command));
        }
    }
}

static void arguments_of_the_trainer_pass_over_their_values(void **state) {
    (void)state;
    oc_config *c = parsed("--dataloader_num_workers 4 --include-for-metrics loss inputs --lr 1 "
                          "--save-strategy=steps --save_steps 7 --report_to none "
                          "--per_device_train_batch_size 4 --per_device_eval_batch_size 9 "
                          "--gradient_checkpointing --use_cpu True --ddp_find_unused_parameters "
                          "False --warmup_ratio 0.03 --label-smoothing-factor 0.0");
    assert_true(c->lr == 1 && c->save_every == 7 && c->micro_batch == 4);
    assert_true(c->recompute == OC_RECOMPUTE_FULL && c->has_device && !c->device_cuda);
    assert_true(c->schedule.warmup_ratio == 0.03);
    assert_non_null(strstr(notes_text, "--dataloader-num-workers has no effect here"));
    assert_non_null(strstr(notes_text, "--per-device-eval-batch-size has no effect here"));
    assert_non_null(strstr(notes_text, "--gradient_checkpointing is --recompute full"));
    oc_config_free(c);
    static const struct {
        const char *line, *message;
    } rows[] = {
        {"--report_to tensorboard", "--log"},
        {"--report_to none wandb", "wandb"},
        {"--save-strategy epoch", "--save-every"},
        {"--push_to_hub", "--push-to-hub true"},
        {"--fsdp full_shard", "one rank"},
        {"--lr-scheduler-type polynomial", "polynomial is not available"},
        {"--optim adafactor", "adafactor is not available"},
        {"--optim paged_adamw_8bit", "paged_adamw_8bit is not available"},
        {"--optim adamx", "none of"},
        {"--warmup-steps 0.1", "--warmup-ratio 0.1"},
        {"--dataloader-num-worker 3", "did you mean --dataloader-num-workers"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_status s = parse(&c, OC_CMD_TRAIN, rows[i].line);
        if (s == OC_OK || !strstr(error.message, rows[i].message))
            fail_msg("%s: %d %s", rows[i].line, s, error.message);
    }
    assert_int_equal(parse(&c, OC_CMD_EVAL, "--per-device-eval-batch-size 9"), OC_OK);
    assert_true(c->micro_batch == 9);
    oc_config_free(c);
    assert_int_equal(parse(&c, OC_CMD_INSPECT, "--report-to none"), OC_E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_deepspeed_has_a_row),
        cmocka_unit_test(rows_beyond_deepspeed_are_these),
        cmocka_unit_test(every_default_of_deepspeed_is_accepted),
        cmocka_unit_test(a_value_of_no_meaning_is_refused_with_the_key),
        cmocka_unit_test(every_key_changes_the_configuration_or_is_listed_or_refused),
        cmocka_unit_test(all_keys_without_effect_fit_in_the_line),
        cmocka_unit_test(every_argument_of_the_trainer_is_known),
        cmocka_unit_test(every_alias_names_its_option),
        cmocka_unit_test(every_promised_option_is_there_or_refused_by_name),
        cmocka_unit_test(arguments_of_the_trainer_pass_over_their_values),
    };
    return cmocka_run_group_tests_name("train_config_keys", tests, make_file, remove_file);
}
