/* nearest.c - edit distance with transpositions (optimal string alignment). */
#include "base/nearest.h"

#include <string.h>

enum { WORD_MAX = 63 }; /* longer words are compared by their beginning */

static unsigned char folded(char c) {
    if (c >= 'A' && c <= 'Z') return (unsigned char)(c - 'A' + 'a');
    return c == '-' ? '_' : (unsigned char)c;
}

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    unsigned rows[3][WORD_MAX + 1];
    unsigned *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= a_length; i++) {
        unsigned *oldest = before;
        before = above;
        above = row;
        row = oldest;
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            unsigned char x = folded(a[i - 1]), y = folded(b[j - 1]);
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == folded(b[j - 2]) && folded(a[i - 2]) == y)
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return row[b_length];
}

const char *oc_nearest(const char *word, const char *const *known, size_t n) {
    size_t length = strnlen(word, WORD_MAX);
    const char *best = NULL;
    unsigned best_distance = 0;
    for (size_t i = 0; i < n; i++) {
        size_t known_length = strnlen(known[i], WORD_MAX);
        unsigned d = distance(word, length, known[i], known_length);
        /* A third of the word may be wrong: of "lr" nothing, of "train_batch_size" five letters. */
        size_t longest = length > known_length ? length : known_length;
        if (d > longest / 3) continue;
        if (!best || d < best_distance) {
            best = known[i];
            best_distance = d;
        }
    }
    return best;
}
