#include "cli/cli.h"
#include "config/options.h"

#include <string.h>

static const struct {
    const char *usage, *what;
    bool here;
} commands[OC_CMD_COUNT] = {
    [OC_CMD_TRAIN] = {"train    --model DIR | --init DIR  --data PATH... --output DIR",
                      "train all parameters of a model, larger than the device's memory or not",
                      true},
    [OC_CMD_GENERATE] = {"generate --model DIR  --prompt TEXT... | --chat | --input FILE --output "
                         "FILE",
                         "go on with texts, talk, or answer a file of prompts", true},
    [OC_CMD_PLAN_GENERATE] = {"plan     generate --model DIR | --init DIR",
                              "which batch generation would take, where states would lie, and "
                              "what it would move",
                              false},
    [OC_CMD_EVAL] = {"eval     --model DIR --data PATH...",
                     "loss, perplexity and tokens of a data set", true},
    [OC_CMD_PLAN] = {"plan     [train] --model DIR | --init DIR",
                     "what a run needs in memory and will take in time, before it starts", true},
    [OC_CMD_BENCH] = {"bench    gemm|adamw|copy|io|comm|all", "measure this machine", false},
    [OC_CMD_INSPECT] = {"inspect  PATH",
                        "what a safetensors file, a model or an output directory holds", true},
    [OC_CMD_TOKENIZE] = {"tokenize --model DIR  --text TEXT | --input FILE | --messages FILE | "
                         "--data PATH...",
                         "what a tokenizer makes of a text, a conversation or training data", true},
};

/* A lesson beside a section's options: when to reach for them. */
static const struct {
    const char *section, *lesson, *example;
} lessons[] = {
    {"Model and data",
     "Rows are packed into full sequences; attention stays inside each row's own tokens.",
     "--model ./llama --data train.jsonl --eval-data dev.jsonl"},
    {"Batch and length",
     "A step sees micro-batch x grad-accum sequences. The micro-batch decides memory and speed,\n"
     "  the product decides what is learned.",
     "--seq-length 4096 --micro-batch 4 --grad-accum 8 --epochs 1"},
    {"Optimizer", "Defaults follow Hugging Face's Trainer, so a recipe carries over unchanged.",
     "--lr 1e-5 --lr-schedule cosine --warmup-steps 100 --weight-decay 0.1"},
    {"Checkpoints and output",
     "The final model is written in Hugging Face's layout, beside run.json, which --config reads "
     "back.",
     "--output out --save-every 500 --keep 2"},
    {"Memory and placement",
     "Give budgets and the rest is planned; homes and counts may be set by hand. Placement "
     "changes\n"
     "  no bit of the result. outcore plan shows what a choice costs.",
     "--device-memory 8GiB --host-memory 96GiB"},
    {"Machine and log", "", "--dtype bf16 --log steps.jsonl --trace lanes.json"},
    {"Checking", "For those who look for a fault: each must leave the results as they are.",
     "--debug-memory --delay-seed 1"},
};

static const char tokenize_lesson[] =
    "\nThe directory needs tokenizer.json only, and tokenizer_config.json or chat_template.jinja "
    "for\n"
    "conversations. Ids are those of Hugging Face's tokenizers; special tokens are added as the\n"
    "tokenizer's post_processor says.\n"
    "  example: outcore tokenize --model ./llama --text \"Hello, world!\"\n"
    "\nA line of --input is a JSON string, so that any text fits in it:\n"
    "  example: outcore tokenize --model ./llama --input texts.jsonl > ids.jsonl\n"
    "\nA conversation, as the model's chat template writes it, ready for an answer:\n"
    "  example: echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' |\n"
    "           outcore tokenize --model ./llama --messages - --generation-prompt\n"
    "\nBefore a fine-tuning run, look at what it will learn: a line that begins with + is "
    "trained,\n"
    "one with - is context only. With --json: ids and labels, -100 for what is not trained.\n"
    "  example: outcore tokenize --model ./llama --data train.jsonl --show-labels | less\n";

static const char generate_lesson[] =
    "\nA prompt is gone on with as it is; --chat puts it through the model's chat template:\n"
    "  example: outcore generate --model ./llama --prompt \"Once upon a time\"\n"
    "  example: outcore generate --model ./llama --chat\n"
    "  example: outcore generate --model ./llama --chat --prompt \"Name three rivers.\"\n"
    "\nA line of --input is {\"prompt\"}, {\"messages\"}, {\"input_ids\"} or OpenAI's batch form, "
    "and may\n"
    "have its own max_tokens, temperature, top_p, seed, stop, ... A killed run goes on with "
    "--resume:\n"
    "  example: outcore generate --model ./llama --input questions.jsonl --output answers.jsonl\n"
    "\nWithout options of sampling, those of the model's generation_config.json hold, and are "
    "printed.\n"
    "Each row draws from a stream of its own: the same --seed, the same text, whatever the batch.\n"
    "\nA model larger than the device streams through it, block by block, and a larger batch makes "
    "up\n"
    "for that:\n"
    "  example: outcore generate --model ./llama --device-memory 8GiB --input in.jsonl --output "
    "out.jsonl\n";

/* What a name means to generate, where it means something else to train. */
static const struct {
    const char *name, *section, *argument, *help;
} of_generate[] = {
    {"input", "Prompts and answers", "FILE|-",
     "a prompt a line, also .gz or .zst; docs/generate.md has the rows"},
    {"output", "Prompts and answers", "FILE|-",
     "of --input: an answer a line, in the order of the prompts"},
    {"resume", "Prompts and answers", "", "go on after the last whole answer of --output"},
    {"overwrite", "Prompts and answers", "", "begin --output anew"},
};

static bool generates(oc_command command) {
    return command == OC_CMD_GENERATE || command == OC_CMD_PLAN_GENERATE;
}

static oc_option as_seen(const oc_option *o, oc_command command) {
    oc_option seen = *o;
    for (size_t i = 0; generates(command) && i < sizeof of_generate / sizeof *of_generate; i++) {
        if (strcmp(o->name, of_generate[i].name) != 0) continue;
        seen.section = of_generate[i].section;
        seen.argument = of_generate[i].argument;
        seen.help = of_generate[i].help;
    }
    return seen;
}

static void section_end(const char *section, oc_command command, FILE *to) {
    for (size_t i = 0; i < sizeof lessons / sizeof *lessons; i++) {
        if (strcmp(lessons[i].section, section) != 0) continue;
        if (command == OC_CMD_TRAIN && *lessons[i].lesson) fprintf(to, "  %s\n", lessons[i].lesson);
        if (command == OC_CMD_TRAIN) fprintf(to, "  example: %s\n", lessons[i].example);
    }
}

static void option_line(const oc_option *o, FILE *to) {
    char name[64];
    int n = snprintf(name, sizeof name, "--%s%s%s", o->name, *o->argument ? " " : "", o->argument);
    if (n > 28)
        fprintf(to, "  %s\n  %28s  %s\n", name, "", o->help);
    else
        fprintf(to, "  %-28s  %s\n", name, o->help);
}

static bool is_shown(size_t i, oc_command command, oc_option *seen) {
    *seen = as_seen(oc_options_at(i), command);
    return !seen->missing && seen->commands & OC_FOR(command);
}

/* Its first option is the i-th: are none of those before of this section? */
static bool begins_section(size_t i, const char *section, oc_command command) {
    oc_option before;
    for (size_t k = 0; k < i; k++)
        if (is_shown(k, command, &before) && strcmp(before.section, section) == 0) return false;
    return true;
}

static void print_section(const char *section, oc_command command, FILE *to) {
    oc_option o;
    fprintf(to, "\n%s\n", section);
    for (size_t i = 0; i < oc_options_count(); i++)
        if (is_shown(i, command, &o) && strcmp(o.section, section) == 0) option_line(&o, to);
    section_end(section, command, to);
}

void oc_cli_help(oc_command command, FILE *to) {
    oc_option o;
    fprintf(to, "outcore %s\n%s.\n", commands[command].usage, commands[command].what);
    if (!commands[command].here) fprintf(to, "\nNot available in this version.\n");
    if (command == OC_CMD_BENCH) return;
    for (size_t i = 0; i < oc_options_count(); i++)
        if (is_shown(i, command, &o) && begins_section(i, o.section, command))
            print_section(o.section, command, to);
    if (generates(command)) fputs(generate_lesson, to);
    if (command == OC_CMD_TOKENIZE) {
        fputs(tokenize_lesson, to);
        return;
    }
    fprintf(to,
            "\nSIZE: 1.5GiB, 100MB, plain bytes. Hugging Face's names of options work too; the\n"
            "name above is then printed.\n");
}

void oc_cli_usage(FILE *to) {
    fprintf(to, "outcore trains language models that are larger than the device's memory.\n\n");
    for (int i = 0; i < OC_CMD_COUNT; i++) {
        if (commands[i].here)
            fprintf(to, "  outcore %s\n      %s\n", commands[i].usage, commands[i].what);
    }
    fprintf(to, "\noutcore COMMAND --help lists a command's options; outcore --version.\n"
                "\nTry first, without any model:\n"
                "  outcore plan --init DIR-WITH-config.json --device-memory 8GiB\n");
}
