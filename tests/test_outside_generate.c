/* Exact memory of generation, seen from outside: the table before the run is what the kernel counts
 * while it runs, streamed and resident, a few sequences and many. */
#include "program.h"

#include <sys/stat.h>

static void make(char dir[SCRATCH_BYTES], int layers, int hidden) {
    static program_result r;
    char text[1024], line[2048], path[SCRATCH_BYTES];
    scratch_make(dir);
    snprintf(
        text, sizeof text,
        "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":%d,"
        "\"intermediate_size\":%d,\"num_hidden_layers\":%d,\"num_attention_heads\":8,"
        "\"num_key_value_heads\":4,\"vocab_size\":3000,\"max_position_embeddings\":512,"
        "\"tie_word_embeddings\":false}",
        hidden, hidden * 3, layers);
    scratch_write(dir, "config.json", text);
    scratch_write(dir, "a.jsonl", "{\"input_ids\": [5, 6, 7, 8]}\n");
    snprintf(line, sizeof line,
             "train --init %s --data %s/a.jsonl --output %s/out --dtype bf16 --max-steps 1 "
             "--seq-length 4 "
             "--tokenizer bytes",
             dir, dir, dir);
    program_run(&(program_spec){.line = line, .dir = dir}, &r);
    if (r.code) fail_msg("%s", r.text);
    FILE *f = fopen(scratch_path(path, dir, "in.jsonl"), "w");
    assert_non_null(f);
    for (int i = 0; i < 24; i++) {
        fprintf(f, "{\"max_tokens\": %d, \"input_ids\": [9", 100 + i % 3);
        for (int k = 0; k < 20 + i * 7; k++)
            fprintf(f, ", %d", (i * 31 + k) % 2000);
        fprintf(f, "]}\n");
    }
    assert_int_equal(fclose(f), 0);
}

static void the_process_is_what_is_planned_and_foreign(void **state) {
    static const struct { int layers, hidden; } models[] = {{2, 256}, {6, 512}};
    static const char *const ways[] = {"--batch 1",
                                       "--batch 8",
                                       "--batch 24 --row-groups 3",
                                       "--batch 8 --device-memory 48MiB --resident-blocks 1",
                                       "--batch 8 --device-memory 48MiB --kv-home host",
                                       "--batch 2 --trace-size 1MiB --threads 1"};
    static program_result r;
    (void)state;
    if (SANITIZED) skip();
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        char dir[SCRATCH_BYTES], line[2048];
        make(dir, models[m].layers, models[m].hidden);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            snprintf(line, sizeof line,
                     "generate --model %s/out --input %s/in.jsonl --output %s/o.jsonl --overwrite "
                     "--ignore-eos %s",
                     dir, dir, dir, ways[i]);
            program_run(&(program_spec){.line = line, .dir = dir}, &r);
            if (r.code) fail_msg("%s\n%s", line, r.text);
            double told = (double)program_number(&r, "\n  process") / MIB;
            double seen = (double)r.anonymous / MIB;
            print_message("%s: %.2f MiB said, %.2f MiB seen in %llu looks\n", ways[i], told, seen,
                          r.looks);
            assert_true(r.looks >= 10);
            if (seen > told || told - seen > 2) fail_msg("%s\n%s", line, r.text);
        }
        scratch_remove(dir);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_process_is_what_is_planned_and_foreign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
