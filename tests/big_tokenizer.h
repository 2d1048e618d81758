/* big_tokenizer.h - writes a tokenizer.json as large as one likes: byte pair encoding over words of
 * lower-case letters, and some added tokens. */
#ifndef OC_BIG_TOKENIZER_H
#define OC_BIG_TOKENIZER_H

#include "scratch.h"

enum { BIG_LETTERS = 26, BIG_ADDED = 300 };

/* Token i is i in base 26, of so many letters as its place among all words, shortest first, says.
 */
static inline int big_word(int i, char word[8]) {
    int n = 1, count = BIG_LETTERS;
    while (i >= count) {
        i -= count;
        count *= BIG_LETTERS;
        n++;
    }
    for (int k = n; k-- > 0; i /= BIG_LETTERS)
        word[k] = (char)('a' + i % BIG_LETTERS);
    word[n] = 0;
    return n;
}

static inline void big_added(FILE *f, int first) {
    fprintf(f, "\"added_tokens\": [");
    for (int i = 0; i < BIG_ADDED; i++)
        fprintf(f,
                "%s{\"id\": %d, \"content\": \"<|reserved_token_%d|>\", \"single_word\": false, "
                "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true}",
                i ? ",\n " : "", first + i, i);
    fprintf(f, "],\n");
}

/* DIR/tokenizer.json of `tokens` words and BIG_ADDED more, and DIR/tokenizer_config.json. 420,000
 * are 10 MB. Each word of two or more letters is a merge of the one before its last letter. */
static inline void big_tokenizer_write(const char *dir, int tokens) {
    char path[SCRATCH_BYTES], word[8];
    FILE *f = fopen(scratch_path(path, dir, "tokenizer.json"), "w");
    if (!f) {
        perror(path);
        exit(1);
    }
    fprintf(f, "{\"version\": \"1.0\",\n");
    big_added(f, tokens);
    fprintf(f, "\"normalizer\": {\"type\": \"NFC\"},\n"
               "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
               "\"Split\", \"pattern\": {\"Regex\": \"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"
               "\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+\"}, \"behavior\": \"Isolated\", "
               "\"invert\": false}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
               "\"trim_offsets\": true, \"use_regex\": false}]},\n"
               "\"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
               "\"trim_offsets\": true, \"use_regex\": true},\n"
               "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
               "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, \"fuse_unk\": "
               "false, \"byte_fallback\": false, \"ignore_merges\": true,\n\"vocab\": {");
    for (int i = 0; i < tokens; i++) {
        (void)big_word(i, word);
        fprintf(f, "%s\"%s\": %d", i ? ",\n" : "", word, i);
    }
    fprintf(f, "},\n\"merges\": [");
    for (int i = BIG_LETTERS; i < tokens; i++) {
        int n = big_word(i, word);
        fprintf(f, "%s\"%.*s %s\"", i > BIG_LETTERS ? ",\n" : "", n - 1, word, word + n - 1);
    }
    fprintf(f, "]}}\n");
    if (fclose(f)) {
        perror(path);
        exit(1);
    }
    scratch_write(dir, "tokenizer_config.json",
                  "{\"eos_token\": \"<|reserved_token_0|>\", \"chat_template\": \"{% for m in "
                  "messages %}{{ m.content }}{{ eos_token }}{% endfor %}\"}");
}

#endif
