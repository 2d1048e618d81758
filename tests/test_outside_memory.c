/* Exact memory, seen from outside the process: what the table before the run says is what the
 * kernel counts while it runs, and a limit of that size is enough. Loading a checkpoint needs one
 * block more at most. Numbers come from /proc and from a memory cgroup. */
#include "big_tokenizer.h"
#include "model/load.h"
#include "program.h"

#include <math.h>
#include <sys/stat.h>

/* ---- models and commands ---- */

static void make(char dir[SCRATCH_BYTES], int layers, int hidden, int vocab) {
    char text[1024];
    scratch_make(dir);
    snprintf(text, sizeof text,
             "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],"
             "\"hidden_size\":%d,\"intermediate_size\":%d,\"num_hidden_layers\":%d,"
             "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"vocab_size\":%d,"
             "\"max_position_embeddings\":128,\"tie_word_embeddings\":false}",
             hidden, hidden * 3, layers, vocab);
    scratch_write(dir, "config.json", text);
    char path[SCRATCH_BYTES];
    FILE *f = fopen(scratch_path(path, dir, "a.jsonl"), "w");
    assert_non_null(f);
    for (int i = 0; i < 12; i++) {
        fprintf(f, "{\"input_ids\": [");
        for (int t = 0; t < 32; t++)
            fprintf(f, "%s%d", t ? ", " : "", (i * 37 + t * 11) % vocab);
        fprintf(f, "]}\n");
    }
    assert_int_equal(fclose(f), 0);
}

static void train_line(char *line, size_t n, const char *dir, const char *rest) {
    int k = snprintf(line, n,
                     "train --init %s --data %s/a.jsonl --output %s/out --overwrite --seq-length "
                     "32 --micro-batch 2 --max-steps 3 --lr 1e-3 %s",
                     dir, dir, dir, rest);
    assert_true(k > 0 && (size_t)k < n);
}

static void run(const program_spec *s, program_result *r) {
    program_run(s, r);
    if (r->code != 0)
        fail_msg("outcore %s: exit code %d, signal %d\n%s", s->line, r->code, r->signal, r->text);
}

/* Bytes of all tiers, as the table says. */
static uint64_t planned(const program_result *r) {
    return program_number(r, "\n  process") - program_number(r, "\n  foreign");
}

/* What was anonymous at the most: as sampled, and as the high-water mark has it. */
static uint64_t peak(const program_result *r) {
    uint64_t marked = r->high_water > r->mapped ? r->high_water - r->mapped : 0;
    assert_true(r->looks >= 10);
    return r->anonymous > marked ? r->anonymous : marked;
}

/* ---- tests ---- */

static void the_process_grows_by_what_is_planned(void **state) {
    static const char *const placements[] = {"--dtype fp32",
                                             "--dtype bf16 --slots 2 --slabs 2 --act-home host",
                                             "--dtype bf16 --device-memory 24MiB"};
    static const int layers[] = {1, 4, 9};
    static program_result r;
    (void)state;
    if (SANITIZED) skip();
    for (size_t p = 0; p < sizeof placements / sizeof *placements; p++) {
        uint64_t first_plan = 0, first_peak = 0;
        for (size_t i = 0; i < 3; i++) {
            char dir[SCRATCH_BYTES], line[2048];
            make(dir, layers[i], 384, 1500);
            train_line(line, sizeof line, dir, placements[p]);
            run(&(program_spec){.line = line, .dir = dir}, &r);
            uint64_t plan = planned(&r), seen = peak(&r);
            if (i == 0) first_plan = plan, first_peak = seen;
            double grown = ((double)seen - (double)first_peak) / MIB;
            double told = ((double)plan - (double)first_plan) / MIB;
            print_message("%s, %d layers: %.1f MiB planned, %.1f MiB seen\n", placements[p],
                          layers[i], (double)plan / MIB, (double)seen / MIB);
            if (fabs(grown - told) > 8)
                fail_msg("%s: planned bytes grew by %.1f MiB, the process by %.1f MiB",
                         placements[p], told, grown);
            if (seen > program_number(&r, "\n  process"))
                fail_msg("%s: %.1f MiB were seen, the table says %.1f MiB", placements[p],
                         (double)seen / MIB, (double)program_number(&r, "\n  process") / MIB);
            if (i == 2) assert_true(told > 60); /* else it shows little */
            scratch_remove(dir);
        }
    }
}

/* ---- the whole process ---- */

/* Rows of text whose words are among the first of the big tokenizer's, so that a small vocabulary
 * has them. */
static void write_words(const char *dir) {
    char path[SCRATCH_BYTES], word[8];
    FILE *f = fopen(scratch_path(path, dir, "t.jsonl"), "w");
    assert_non_null(f);
    for (int row = 0; row < 200; row++) {
        fprintf(f, "{\"text\": \"");
        for (int k = 0; k < 40; k++) {
            (void)big_word((row * 31 + k * 7) % 700, word);
            fprintf(f, "%s ", word);
        }
        fprintf(f, "\"}\n");
    }
    assert_int_equal(fclose(f), 0);
}

/* What a run adds to the model, and whether the plan's own bytes matter to it. */
typedef struct addition {
    const char *name, *options;
    bool text, plan;
} addition;

static const addition additions[] = {
    {"nothing else", "", false, false},
    {"a tokenizer of 10 MB", "", true, false},
    {"a trace", "--trace %s/trace.json", false, true},
    {"64 accumulations", "--grad-accum 64", false, true},
    {"all of it", "--grad-accum 64 --trace %s/trace.json --eval-data %s/t.jsonl", true, true}};

/* From step 1 on, the saving of the model included, the most that was seen is what the table says,
 * within 2 MiB, and not more. (Reading a large tokenizer takes more for a moment than a tiny
 * model's run: that is gone by then.) */
static void compare(const char *name, const char *dir, const addition *a) {
    static program_result r;
    char options[3 * SCRATCH_BYTES], line[4096];
    /* the formats are constants of this file */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(options, sizeof options, a->options, dir, dir);
#pragma GCC diagnostic pop
    snprintf(line, sizeof line,
             "train --init %s --data %s/%s --output %s/out --overwrite --seq-length 32 "
             "--micro-batch 2 --max-steps 2 --dtype bf16 %s",
             dir, dir, a->text ? "t.jsonl" : "a.jsonl", dir, options);
    run(&(program_spec){.line = line, .dir = dir, .after = "\nstep 1/"}, &r);
    assert_true(r.looks >= 3);
    double told = (double)program_number(&r, "\n  process") / MIB;
    double seen = (double)r.anonymous / MIB;
    print_message("%s, %s: %.2f MiB said, %.2f MiB of it foreign, %.2f MiB seen\n", name, a->name,
                  told, (double)program_number(&r, "\n  foreign") / MIB, seen);
    if (a->plan && !strstr(r.text, "\n    plan ")) fail_msg("no line \"plan\" in\n%s", r.text);
    if (seen > told || told - seen > 2)
        fail_msg("%s, %s: %.2f MiB were seen, the table says %.2f MiB\n%s", name, a->name, seen,
                 told, r.text);
}

static void the_process_is_what_is_planned_and_foreign(void **state) {
    static const struct {
        const char *name;
        int layers, hidden;
    } models[] = {{"small", 2, 64}, {"middle", 4, 384}, {"large", 8, 512}};
    (void)state;
    if (SANITIZED) skip();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (size_t k = 0; k < sizeof additions / sizeof *additions; k++) {
            char dir[SCRATCH_BYTES], path[SCRATCH_BYTES];
            make(dir, models[i].layers, models[i].hidden, 1500);
            if (additions[k].text) {
                big_tokenizer_write(dir, 420000);
                /* it names an eos_token that the model does not have */
                (void)unlink(scratch_path(path, dir, "tokenizer_config.json"));
                write_words(dir);
            }
            compare(models[i].name, dir, &additions[k]);
            scratch_remove(dir);
        }
}

/* mincore() at the end of the run finds exactly the planned bytes, whole pages. */
static void arenas_hold_exactly_the_planned_bytes(void **state) {
    static const char *const placements[] = {"--dtype fp32", "--dtype bf16 --slots 2",
                                             "--dtype fp16 --device-memory 24MiB"};
    static program_result r;
    static const char *const tiers[] = {"\ndevice: ", "\nhost: "};
    (void)state;
    for (size_t p = 0; p < sizeof placements / sizeof *placements; p++) {
        char dir[SCRATCH_BYTES], line[2048];
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        int found = 0;
        make(dir, 2, 256, 600);
        train_line(line, sizeof line, dir, placements[p]);
        run(&(program_spec){.line = line, .dir = dir}, &r);
        for (size_t i = 0; i < 2; i++) {
            const char *at = r.text;
            /* "device: cpu, 2 threads" stands in the table as well */
            while ((at = strstr(at, tiers[i])) != NULL) {
                char *end = NULL;
                uint64_t plan = strtoull(at += strlen(tiers[i]), &end, 10);
                if (end == at || strncmp(end, " bytes planned", 14) != 0) continue;
                const char *comma = strstr(end, "), ");
                assert_non_null(comma);
                assert_int_equal(strtoull(comma + 3, NULL, 10), (plan + page - 1) / page * page);
                found++;
            }
        }
        assert_int_equal(found, p == 0 ? 1 : 2);
        scratch_remove(dir);
    }
}

/* ---- a limit from outside ---- */

/* A memory cgroup below this process's own; false when this machine does not let us make one. */
static bool make_group(char group[SCRATCH_BYTES], bool *second) {
    char text[4096], path[1024];
    program_read("/proc/self/cgroup", text, sizeof text);
    const char *one = strstr(text, ":memory:"), *two = strstr(text, "0::");
    for (int version = 1; version <= 2; version++) {
        const char *at = version == 1 ? (one ? one + 8 : NULL) : (two ? two + 3 : NULL);
        if (!at) continue;
        snprintf(path, sizeof path, "/sys/fs/cgroup%s%.*s", version == 1 ? "/memory" : "",
                 (int)strcspn(at, "\n"), at);
        int n = snprintf(group, SCRATCH_BYTES, "%.400s/outcore-test-%d", path, (int)getpid());
        if (n < 0 || mkdir(group, 0700)) continue;
        snprintf(path, sizeof path, "%s/%s", group,
                 version == 1 ? "memory.limit_in_bytes" : "memory.max");
        *second = version == 2;
        if (access(path, W_OK) == 0) return true;
        (void)rmdir(group);
    }
    return false;
}

static bool set_limit(const char *group, bool second, uint64_t bytes) {
    char path[SCRATCH_BYTES], text[32];
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    int fd =
        open(scratch_path(path, group, second ? "memory.max" : "memory.limit_in_bytes"), O_WRONLY);
    bool done = fd >= 0 && write(fd, text, (size_t)n) == n;
    if (fd >= 0) close(fd);
    return done;
}

/* Without the right to make cgroups: the kernel's limit on private writable memory. It counts what
 * is reserved, not what is resident, so thread stacks count whole. */
static void run_under_data_limit(const char *dir, const char *line, uint64_t bytes) {
    static program_result r;
    struct rlimit stack = {8u << 20, 8u << 20};
    (void)getrlimit(RLIMIT_STACK, &stack);
    uint64_t stacks = stack.rlim_cur == RLIM_INFINITY ? 2u << 20 : stack.rlim_cur;
    uint64_t threads = 7 + 2 * (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    print_message("no memory cgroup can be made here: RLIMIT_DATA instead\n");
    run(&(program_spec){.line = line, .dir = dir, .data_limit = bytes + threads * stacks}, &r);
    program_run(&(program_spec){.line = line, .dir = dir, .data_limit = bytes / 2}, &r);
    assert_true(r.code != 0);
}

static void a_limit_of_what_is_planned_is_enough(void **state) {
    static const char *const placements[] = {"--dtype fp32",
                                             "--dtype bf16 --slots 2 --slabs 2 --act-home host"};
    static program_result r;
    char dir[SCRATCH_BYTES], line[2048], group[SCRATCH_BYTES], procs[SCRATCH_BYTES];
    bool second = false;
    (void)state;
    if (SANITIZED) skip();
    make(dir, 6, 384, 1500);
    bool grouped = make_group(group, &second);
    for (size_t p = 0; p < sizeof placements / sizeof *placements; p++) {
        train_line(line, sizeof line, dir, placements[p]);
        run(&(program_spec){.line = line, .dir = dir}, &r);
        uint64_t limit = program_number(&r, "\n  process");
        limit += limit / 100;
        if (!grouped) {
            run_under_data_limit(dir, line, limit);
            continue;
        }
        const program_spec inside = {
            .line = line, .dir = dir, .cgroup = scratch_path(procs, group, "cgroup.procs")};
        if (!set_limit(group, second, limit)) fail_msg("%s: the limit was not taken", group);
        program_run(&inside, &r);
        int code = r.code;
        /* and half of it is refused, not killed: the program looks at its cgroup */
        bool halved = set_limit(group, second, limit / 2);
        if (code == 0 && halved) {
            program_run(&inside, &r);
            if (r.code != 2) code = 200;
        }
        if (code != 0) {
            (void)rmdir(group);
            fail_msg("%s: exit code %d, signal %d\n%s", line, r.code, r.signal, r.text);
        }
    }
    if (grouped) assert_int_equal(rmdir(group), 0);
    scratch_remove(dir);
}

/* ---- loading ---- */

typedef struct source {
    const oc_model *model;
    float *block;
} source;

static oc_status values(void *arg, int32_t block, const void **out, oc_dtype *dtype,
                        oc_error *err) {
    source *s = arg;
    (void)err;
    oc_model_init_block(s->model, block, 1, s->block);
    *out = s->block;
    *dtype = OC_F32;
    return OC_OK;
}

/* Shards of 32 MB. Returns how many files there are; *block_bytes: of the largest block, fp32. */
static int write_shards(const char *dir, uint64_t *block_bytes, uint64_t *total) {
    oc_error err = {OC_OK, ""};
    oc_model *m = NULL;
    oc_tensor_decl *decls = NULL;
    oc_writer *w = NULL;
    int32_t n = 0;
    assert_int_equal(oc_model_open(&m, dir, &err), OC_OK);
    assert_int_equal(oc_model_decls(m, OC_F32, &decls, &n, &err), OC_OK);
    uint64_t scratch_bytes = (oc_model_scratch_bytes(m) + (1u << 20) + 63) / 64 * 64;
    source s = {m, aligned_alloc(64, (m->max_block_elements * 4 + 63) / 64 * 64)};
    void *scratch = aligned_alloc(64, scratch_bytes);
    assert_non_null(s.block);
    assert_non_null(scratch);
    assert_int_equal(oc_writer_open(&w, dir, decls, n, 32000000, &err), OC_OK);
    if (oc_model_write(m, w, values, &s, scratch, scratch_bytes, &err) != OC_OK ||
        oc_writer_commit(w, &err) != OC_OK)
        fail_msg("%s", err.message);
    *block_bytes = m->max_block_elements * 4;
    *total = m->parameters * 4;
    oc_writer_close(w);
    free(s.block);
    free(scratch);
    free(decls);
    oc_model_close(m);
    oc_tensors *t = NULL;
    assert_int_equal(oc_tensors_open(&t, dir, &err), OC_OK);
    int files = oc_tensors_file_count(t);
    oc_tensors_close(t);
    return files;
}

static void remove_shards(const char *dir, int files) {
    char name[64], path[SCRATCH_BYTES];
    for (int i = 1; i <= files; i++) {
        snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", i, files);
        (void)unlink(scratch_path(path, dir, name));
    }
    (void)unlink(scratch_path(path, dir, "model.safetensors.index.json"));
}

static void loading_needs_no_more_than_one_block_beside_the_plan(void **state) {
    static const char eval[] =
        "eval --model %s --data %s/a.jsonl --seq-length 32 --micro-batch 2 --dtype bf16";
    static const char eval_streamed[] = "eval --model %s --data %s/a.jsonl --seq-length 32 "
                                        "--micro-batch 2 --dtype fp32 --slots 2";
    static const char train[] = "train --model %s --data %s/a.jsonl --output %s/out --overwrite "
                                "--seq-length 32 --micro-batch 2 --max-steps 1 --dtype bf16";
    static const char *const commands[] = {eval, eval_streamed, train};
    static program_result r;
    char dir[SCRATCH_BYTES], line[2048];
    uint64_t block = 0, total = 0;
    (void)state;
    if (SANITIZED) skip();
    make(dir, 11, 640, 4000);
    int files = write_shards(dir, &block, &total);
    assert_true(files >= 6);
    assert_true(total > 200000000 && block < total / 8); /* else a spike would not show */
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        /* the formats are constants of this function */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(line, sizeof line, commands[i], dir, dir, dir);
#pragma GCC diagnostic pop
        run(&(program_spec){.line = line, .dir = dir}, &r);
        uint64_t plan = planned(&r), seen = peak(&r);
        print_message("%.5s: %.1f MiB planned, %.1f MiB seen, a block is %.1f MiB\n", line,
                      (double)plan / MIB, (double)seen / MIB, (double)block / MIB);
        if (seen > plan + block + (32u << 20))
            fail_msg("%s: %.1f MiB were seen, %.1f MiB planned, a block is %.1f MiB", line,
                     (double)seen / MIB, (double)plan / MIB, (double)block / MIB);
    }
    remove_shards(dir, files);
    scratch_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_process_grows_by_what_is_planned),
        cmocka_unit_test(the_process_is_what_is_planned_and_foreign),
        cmocka_unit_test(arenas_hold_exactly_the_planned_bytes),
        cmocka_unit_test(a_limit_of_what_is_planned_is_enough),
        cmocka_unit_test(loading_needs_no_more_than_one_block_beside_the_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
