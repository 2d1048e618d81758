/* The command line of generate and plan generate: what its options set, under which names of other
 * programs, what goes with what, and which options are of these commands alone. */
#include "config_case.h"

static oc_config *line_of(oc_command command, const char *line) {
    oc_config *c = NULL;
    if (parse(&c, command, line) != OC_OK) fail_msg("%s: %s", line, error.message);
    return c;
}

static void what_is_not_given_is_left_to_the_models_own_configuration(void **state) {
    (void)state;
    oc_config *c = line_of(OC_CMD_GENERATE, "--model m --prompt hello");
    assert_int_equal(resolve(c), OC_OK);
    static const char *const options[] = {"do-sample",     "temperature", "top-k",
                                          "top-p",         "min-p",       "repetition-penalty",
                                          "max-new-tokens"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        assert_int_equal(oc_config_origin(c, options[i]), OC_FROM_DEFAULT);
    const struct oc_generate_config *g = &c->gen;
    assert_true(g->temperature == 0 && g->top_k == 0 && g->top_p == 1 && g->min_p == 0);
    assert_true(g->repetition_penalty == 1 && g->presence_penalty == 0 && g->logprobs == -1);
    assert_true(g->max_new_tokens == 0 && g->min_new_tokens == 0 && g->prompt_tokens == 512);
    assert_true(g->batch == 0 && g->kv_tokens == 0 && g->prefill == 0 && g->page_tokens == 32);
    assert_true(g->kv_home == OC_HOME_AUTO && !g->chat && !g->ignore_eos && !g->invariant);
    assert_true(c->seed == 42 && g->n_stops == 0 && !c->resume && !c->overwrite);
    oc_config_free(c);
}

static void options_set_what_they_say(void **state) {
    (void)state;
    oc_config *c =
        line_of(OC_CMD_GENERATE,
                "--model m --input in.jsonl.gz --output out.jsonl --resume --max-new-tokens 7 "
                "--batch 3 --temperature 0.5 --top-k 5 --top-p 0.9 --min-p 0.1 "
                "--repetition-penalty 1.5 --presence-penalty -2 --frequency-penalty 2 --stop a "
                "b --stop c --logprobs 0 --ignore-eos --seed 9");
    assert_int_equal(resolve(c), OC_OK);
    assert_string_equal(c->input, "in.jsonl.gz");
    assert_string_equal(c->output, "out.jsonl");
    assert_true(c->resume && !c->resume_path && c->gen.max_new_tokens == 7);
    assert_true(c->gen.batch == 3 && c->gen.temperature == 0.5 && c->gen.top_k == 5 &&
                c->gen.top_p == 0.9);
    assert_true(c->gen.min_p == 0.1 && c->gen.repetition_penalty == 1.5 &&
                c->gen.presence_penalty == -2);
    assert_true(c->gen.frequency_penalty == 2 && c->gen.n_stops == 3 && c->gen.logprobs == 0 &&
                c->gen.ignore_eos);
    assert_string_equal(c->gen.stops[2], "c");
    assert_true(c->seed == 9);
    oc_config_free(c);
}

/* What looks like torchtune's settings is a prompt like any other. */
static void prompts_are_taken_as_they_stand(void **state) {
    (void)state;
    oc_config *c = line_of(OC_CMD_GENERATE, "--model m --prompt x= lr=2 model=none --prompt=--lr");
    assert_int_equal(resolve(c), OC_OK);
    assert_int_equal(c->gen.n_prompts, 4);
    assert_string_equal(c->gen.prompts[1], "lr=2");
    assert_string_equal(c->gen.prompts[2], "model=none");
    assert_string_equal(c->gen.prompts[3], "--lr");
    assert_string_equal(c->model_dir, "m");
    oc_config_free(c);
}

static void names_of_other_programs_are_taken(void **state) {
    (void)state;
    static const char *const lines[] = {
        /* vLLM, run-batch and chat */
        "--model m --input-file i --output-file o --max-tokens 7 --max-num-seqs 3 "
        "--tensor-parallel-size 1 --gpu-memory-utilization 0.9 --enforce-eager "
        "--enable-prefix-caching --trust-remote-code",
        /* transformers */
        ("--model_name_or_path m --input i --output o --max_new_tokens 7 --num_beams 1 --batch 3 "
         "--num_return_sequences 1 --use_cache True"),
        /* ZeRO-Inference */
        "--model m --input i --output o --gen-len 7 --gpu-batch-size 3 --local_rank 0",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        oc_config *c = line_of(OC_CMD_GENERATE, lines[i]);
        assert_int_equal(resolve(c), OC_OK);
        assert_string_equal(c->model_dir, "m");
        assert_string_equal(c->input, "i");
        assert_string_equal(c->output, "o");
        assert_true(c->gen.max_new_tokens == 7 && c->gen.batch == 3);
        oc_config_free(c);
    }
    oc_config *c = line_of(OC_CMD_GENERATE, "--model m --chat --raw --prompt x --kv_offload");
    assert_true(!c->gen.chat && c->gen.kv_home == OC_HOME_HOST);
    oc_config_free(c);
}

static void every_row_of_other_programs_takes_its_own_values(void **state) {
    (void)state;
    char line[256];
    for (size_t i = 0; i < oc_generators_count(); i++) {
        const oc_foreign_arg *x = oc_generators_at(i);
        const char *fixed;
        oc_config *c = NULL;
        assert_true(oc_options_find(x->name, strlen(x->name), &fixed) == NULL || !x->option);
        snprintf(line, sizeof line, "--%s=%.*s", x->name,
                 x->accepted ? (int)strcspn(x->accepted, "|") : 4,
                 x->accepted ? x->accepted : "true");
        if (parse(&c, OC_CMD_GENERATE, line) != OC_OK) fail_msg("%s: %s", line, error.message);
        assert_non_null(strstr(notes_text, x->name));
        oc_config_free(c);
        if (!x->accepted) continue;
        snprintf(line, sizeof line, "--%s=31", x->name);
        assert_int_equal(parse(&c, OC_CMD_PLAN_GENERATE, line), OC_E_UNSUPPORTED);
        assert_non_null(strstr(error.message, x->why));
    }
}

static void a_switch_and_a_temperature_agree(void **state) {
    (void)state;
    static const struct {
        const char *line;
        double temperature; /* -2: refused */
    } rows[] = {
        {"", 0},
        {"--do_sample True", 0},
        {"--do_sample False", 0},
        {"--do-sample --temperature 0.5", 0.5},
        {"--do-sample --temperature 0", -2},
        {"--do-sample false --temperature 0.5", -2},
        {"--do-sample false --temperature 0", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[128];
        snprintf(line, sizeof line, "--model m --prompt x %s", rows[i].line);
        oc_config *c = line_of(OC_CMD_GENERATE, line);
        assert_int_equal(resolve(c), rows[i].temperature < -1.5 ? OC_E_INVALID : OC_OK);
        if (rows[i].temperature < -1.5)
            assert_non_null(strstr(error.message, "contradict"));
        else
            assert_true(c->gen.temperature == rows[i].temperature);
        oc_config_free(c);
    }
    oc_config *c = line_of(OC_CMD_GENERATE, "--model m --prompt x --temperature 0 --top-p 0.5 "
                                            "--top-k -1");
    assert_int_equal(resolve(c), OC_OK);
    assert_non_null(strstr(notes_text, "--top-p has an effect with --temperature above 0 only\n"));
    assert_int_equal(c->gen.top_k, 0);
    oc_config_free(c);
}

static void what_does_not_go_together_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        oc_command command;
        const char *line, *message;
    } rows[] = {
        {OC_CMD_GENERATE, "--prompt x", "needs --model DIR"},
        {OC_CMD_GENERATE, "--model m", "needs --prompt TEXT"},
        {OC_CMD_GENERATE, "--model m --input i", "--input needs --output"},
        {OC_CMD_GENERATE, "--model m --prompt x --output o", "--output goes with --input"},
        {OC_CMD_GENERATE, "--model m --prompt x --input i --output o", "--input and --prompt"},
        {OC_CMD_GENERATE, "--model m --chat --input i --output o", "--input and --chat"},
        {OC_CMD_GENERATE, "--model m --prompt x --system y", "--system goes with --chat"},
        {OC_CMD_GENERATE, "--model m --chat --json", "--chat without --prompt"},
        {OC_CMD_GENERATE, "--model m --prompt x --resume", "--resume goes with --output"},
        {OC_CMD_GENERATE, "--model m --input i --output - --overwrite", "--overwrite goes with"},
        {OC_CMD_GENERATE, "--model m --input i --output o --resume p", "--resume p"},
        {OC_CMD_GENERATE, "--model m --input - --output o --resume", "must be a file"},
        {OC_CMD_GENERATE, "--model m --input i --output o --resume --overwrite", "exclude"},
        {OC_CMD_GENERATE, "--model m --prompt x --logprobs 3", "--logprobs"},
        {OC_CMD_GENERATE, "--model m --prompt x --max-new-tokens 3 --min-new-tokens 4",
         "--min-new-tokens 4 is above --max-new-tokens 3"},
        {OC_CMD_GENERATE, "--model m --prompt x --stop=", "--stop: the text is empty"},
        {OC_CMD_PLAN_GENERATE, "", "needs --model DIR, or --init DIR"},
        {OC_CMD_PLAN_GENERATE, "--model m --init n", "--model and --init exclude"},
        {OC_CMD_PLAN_GENERATE, "--model m --page-tokens 17", "no multiple of 16"},
        {OC_CMD_PLAN_GENERATE, "--model m --input i --prompt-tokens 17", "leave out --input"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_config *c = line_of(rows[i].command, rows[i].line);
        assert_int_equal(resolve(c), OC_E_INVALID);
        if (!strstr(error.message, rows[i].message))
            fail_msg("%s: \"%s\"", rows[i].line, error.message);
        oc_config_free(c);
    }
    oc_config *c = line_of(OC_CMD_PLAN, "generate --init m --prompt-tokens 100 --batch auto");
    assert_int_equal(resolve(c), OC_OK);
    assert_true(c->command == OC_CMD_PLAN_GENERATE && c->gen.prompt_tokens == 100 &&
                c->gen.batch == 0);
    oc_config_free(c);
}

static void ranges_are_those_of_the_field(void **state) {
    (void)state;
    static const char *const lines[] = {
        "--temperature -1",       "--top-p 1.1",       "--top-p -0.1",    "--min-p 2",
        "--max-new-tokens 0",     "--logprobs 21",     "--top-k -2",      "--repetition-penalty 0",
        "--presence-penalty 3",   "--batch 0",         "--kv-tokens 0",   "--prefill-chunk 0",
        "--frequency-penalty -3", "--temperature nan", "--page-tokens 0", "--min-new-tokens -1"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        oc_config *c = NULL;
        if (parse(&c, OC_CMD_GENERATE, lines[i]) != OC_E_INVALID) fail_msg("%s", lines[i]);
    }
}

static void options_of_one_kind_of_run_are_none_of_the_others(void **state) {
    (void)state;
    static const struct {
        oc_command command;
        const char *line, *message;
    } rows[] = {
        {OC_CMD_TRAIN, "--max-new-tokens 3", "not an option of outcore train"},
        {OC_CMD_EVAL, "--batch 3", "not an option of outcore eval"},
        {OC_CMD_PLAN, "--kv-home host", "not an option of outcore plan"},
        {OC_CMD_TOKENIZE, "--prompt x", "not an option of outcore tokenize"},
        {OC_CMD_GENERATE, "--lr 1", "not an option of outcore generate"},
        {OC_CMD_GENERATE, "--prompt-tokens 4", "not an option of outcore generate"},
        {OC_CMD_GENERATE, "--max-new-tokns 4", "did you mean --max-new-tokens"},
        {OC_CMD_GENERATE, "--batch-size 4", "did you mean --batch"},
        {OC_CMD_GENERATE, "--num_beams 4", "--num-beams 4 is not available"},
        {OC_CMD_PLAN_GENERATE, "--optimizer sgd", "not an option of outcore plan generate"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        oc_config *c = NULL;
        assert_int_not_equal(parse(&c, rows[i].command, rows[i].line), OC_OK);
        if (!strstr(error.message, rows[i].message))
            fail_msg("%s: \"%s\"", rows[i].line, error.message);
    }
}

static void run_json_of_a_generation_reads_back(void **state) {
    (void)state;
    oc_config *a = line_of(OC_CMD_GENERATE, "--model m --input i --output o --temperature 0.7 "
                                            "--stop END --min-p 0.05 --max-new-tokens 9");
    assert_int_equal(resolve(a), OC_OK);
    assert_int_equal(oc_config_write(a, NULL, file_path, &error), OC_OK);
    oc_config *b = line_of(OC_CMD_GENERATE, "");
    if (oc_config_read_deepspeed(b, file_path, 1, NULL, &error) != OC_OK)
        fail_msg("%s", error.message);
    assert_int_equal(resolve(b), OC_OK);
    assert_true(same_json(a, b));
    assert_true(b->gen.temperature == 0.7 && b->gen.n_stops == 1 && b->gen.max_new_tokens == 9);
    assert_true(oc_config_origin(b, "top-k") == OC_FROM_DEFAULT && b->gen.top_k == 0);
    oc_config_free(a);
    oc_config_free(b);
    /* a switch that was not given is not written as if it were */
    a = line_of(OC_CMD_GENERATE, "--model m --prompt x --do-sample");
    assert_int_equal(oc_config_write(a, NULL, file_path, &error), OC_OK);
    b = line_of(OC_CMD_GENERATE, "");
    assert_int_equal(oc_config_read_deepspeed(b, file_path, 1, NULL, &error), OC_OK);
    assert_true(b->gen.do_sample && oc_config_origin(b, "do-sample") == OC_FROM_FILE);
    oc_config_free(a);
    oc_config_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_given_is_left_to_the_models_own_configuration),
        cmocka_unit_test(options_set_what_they_say),
        cmocka_unit_test(prompts_are_taken_as_they_stand),
        cmocka_unit_test(names_of_other_programs_are_taken),
        cmocka_unit_test(every_row_of_other_programs_takes_its_own_values),
        cmocka_unit_test(a_switch_and_a_temperature_agree),
        cmocka_unit_test(what_does_not_go_together_is_refused_by_name),
        cmocka_unit_test(ranges_are_those_of_the_field),
        cmocka_unit_test(options_of_one_kind_of_run_are_none_of_the_others),
        cmocka_unit_test(run_json_of_a_generation_reads_back),
    };
    return cmocka_run_group_tests_name("config_generate", tests, make_file, remove_file);
}
