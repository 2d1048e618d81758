/* ids.c - rows of input_ids: labels, masks, padding, and the documents that were packed into one.
 */
#include "data/internal.h"

#include <inttypes.h>
#include <string.h>

static oc_status copy_ints(const oc_encoder *e, const json_t *list, const char *key, int32_t *out,
                           const char *where, oc_error *err) {
    bool labels = strcmp(key, "labels") == 0;
    for (size_t i = 0; i < e->n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v))
            return oc_fail(err, OC_E_FORMAT, "%s: %s[%zu] is %s, not an integer", where, key, i,
                           oc_json_type_name(v));
        int64_t id = json_integer_value(v);
        if ((id < 0 || id >= e->vocab) && !(labels && id == OC_IGNORE))
            return oc_fail(err, OC_E_INVALID,
                           "%s: %s[%zu] = %" PRId64 " is not in the model's vocabulary [0, %" PRId64
                           ")%s",
                           where, key, i, id, e->vocab, labels ? " and not -100" : "");
        out[i] = (int32_t)id;
    }
    return OC_OK;
}

static oc_status same_length(const json_t *list, const char *key, size_t n, const char *where,
                             oc_error *err) {
    if (json_is_array(list) && json_array_size(list) == n) return OC_OK;
    return oc_fail(err, OC_E_FORMAT, "%s: \"%s\" is not an array of %zu, as \"input_ids\" is",
                   where, key, n);
}

static oc_status take_labels(oc_encoder *e, const json_t *row, const char *where, oc_error *err) {
    const json_t *labels = oc_row_member(row, "labels");
    if (labels == NULL) {
        if (e->n > 0) memcpy(e->labels, e->ids, e->n * sizeof *e->labels);
        return OC_OK;
    }
    OC_TRY(same_length(labels, "labels", e->n, where, err));
    return copy_ints(e, labels, "labels", e->labels, where, err);
}

/* ---- masks: what they leave out is not trained, as in TRL ---- */

static oc_status apply_mask(oc_encoder *e, const json_t *mask, const char *key, bool labelled,
                            const char *where, oc_error *err) {
    OC_TRY(same_length(mask, key, e->n, where, err));
    for (size_t i = 0; i < e->n; i++) {
        int bit = oc_keys_bit(json_array_get(mask, i));
        if (bit < 0) return oc_fail(err, OC_E_FORMAT, "%s: %s[%zu] is not 0 or 1", where, key, i);
        if (bit == 0 && labelled && e->labels[i] != OC_IGNORE)
            return oc_fail(err, OC_E_FORMAT,
                           "%s: %s[%zu] is 0 where labels[%zu] is not -100; keep one of the two",
                           where, key, i, i);
        if (bit == 0) e->labels[i] = OC_IGNORE;
    }
    return OC_OK;
}

static oc_status apply_masks(oc_encoder *e, const json_t *row, const char *where, oc_error *err) {
    bool labelled = oc_row_member(row, "labels") != NULL;
    const char *key;
    for (size_t i = 0; (key = oc_keys_mask(i)) != NULL; i++) {
        const json_t *mask = oc_row_member(row, key);
        if (mask != NULL) OC_TRY(apply_mask(e, mask, key, labelled, where, err));
    }
    return OC_OK;
}

/* ---- padding ---- */

/* Padding, 0 in the mask, may stand at both ends; the packer pads anew. *cut: tokens left out at
 * the beginning. */
static oc_status cut_padding(oc_encoder *e, const json_t *mask, const char *where, size_t *cut,
                             oc_error *err) {
    size_t first = e->n, last = 0;
    OC_TRY(same_length(mask, "attention_mask", e->n, where, err));
    for (size_t i = 0; i < e->n; i++) {
        const json_t *v = json_array_get(mask, i);
        int64_t x = json_is_integer(v) ? json_integer_value(v) : -1;
        if (x != 0 && x != 1)
            return oc_fail(err, OC_E_FORMAT, "%s: attention_mask[%zu] is not 0 or 1", where, i);
        if (x == 1 && first < i && last + 1 < i)
            return oc_fail(err, OC_E_UNSUPPORTED,
                           "%s: attention_mask[%zu] is 0 between tokens; only padding at the ends "
                           "can be left out",
                           where, i - 1);
        if (x == 1 && first == e->n) first = i;
        if (x == 1) last = i;
    }
    size_t n = first < e->n ? last - first + 1 : 0;
    if (n > 0 && first > 0) {
        memmove(e->ids, e->ids + first, n * sizeof *e->ids);
        memmove(e->labels, e->labels + first, n * sizeof *e->labels);
    }
    e->n = n;
    *cut = n > 0 ? first : 0;
    return OC_OK;
}

/* ---- documents: the first token of one is nobody's target ---- */

static oc_status begin_document(oc_encoder *e, size_t at, const char *where, oc_error *err) {
    if (at > 0) e->labels[at] = OC_IGNORE;
    return oc_encoder_begin(e, at, where, err);
}

static oc_status by_positions(oc_encoder *e, const json_t *list, size_t whole, size_t cut,
                              const char *where, oc_error *err) {
    OC_TRY(same_length(list, "position_ids", whole, where, err));
    for (size_t i = 0; i < e->n; i++) {
        const json_t *v = json_array_get(list, cut + i);
        json_int_t x = json_is_integer(v) ? json_integer_value(v) : -1;
        json_int_t last = i > 0 ? json_integer_value(json_array_get(list, cut + i - 1)) : -1;
        if (x != 0 && (i == 0 || x != last + 1))
            return oc_fail(err, OC_E_UNSUPPORTED,
                           "%s: position_ids[%zu] neither follows the one before nor is 0, which "
                           "begins a document",
                           where, cut + i);
        if (x == 0) OC_TRY(begin_document(e, i, where, err));
    }
    return OC_OK;
}

static oc_status by_lengths(oc_encoder *e, const json_t *list, const char *where, oc_error *err) {
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t x = json_is_integer(v) ? json_integer_value(v) : 0;
        if (x < 1 || (uint64_t)x > e->n - at)
            return oc_fail(err, OC_E_FORMAT,
                           "%s: seq_lengths[%zu] is no part of the row's %zu tokens", where, i,
                           e->n);
        OC_TRY(begin_document(e, at, where, err));
        at += (size_t)x;
    }
    if (json_is_array(list) && at == e->n) return OC_OK;
    return oc_fail(err, OC_E_FORMAT,
                   "%s: \"seq_lengths\" are not lengths that add up to the row's %zu tokens", where,
                   e->n);
}

static oc_status find_documents(oc_encoder *e, const json_t *row, size_t whole, size_t cut,
                                const char *where, oc_error *err) {
    const json_t *positions = oc_row_member(row, "position_ids");
    const json_t *lengths = oc_row_member(row, "seq_lengths");
    if (lengths != NULL) OC_TRY(by_lengths(e, lengths, where, err));
    size_t documents = e->n_starts;
    if (positions == NULL) return OC_OK;
    if (lengths == NULL) return by_positions(e, positions, whole, cut, where, err);
    for (size_t i = 0; i < documents; i++) { /* both say the same, or the row is wrong */
        const json_t *v = json_array_get(positions, cut + e->starts[i]);
        if (!json_is_integer(v) || json_integer_value(v) != 0)
            return oc_fail(err, OC_E_FORMAT,
                           "%s: \"position_ids\" and \"seq_lengths\" disagree; keep one", where);
    }
    e->n_starts = 0;
    OC_TRY(by_positions(e, positions, whole, cut, where, err));
    return e->n_starts == documents
               ? OC_OK
               : oc_fail(err, OC_E_FORMAT,
                         "%s: \"position_ids\" and \"seq_lengths\" disagree; keep one", where);
}

oc_status oc_encoder_ids(oc_encoder *e, const json_t *row, const char *where, oc_error *err) {
    const json_t *ids = oc_row_member(row, "input_ids");
    const json_t *mask = oc_row_member(row, "attention_mask");
    size_t cut = 0, whole = json_array_size(ids);
    if (!json_is_array(ids))
        return oc_fail(err, OC_E_FORMAT, "%s: \"input_ids\" is %s, not an array", where,
                       oc_json_type_name(ids));
    OC_TRY(oc_encoder_reserve(e, whole, where, err));
    e->n = whole;
    OC_TRY(copy_ints(e, ids, "input_ids", e->ids, where, err));
    OC_TRY(take_labels(e, row, where, err));
    OC_TRY(apply_masks(e, row, where, err));
    if (mask != NULL) OC_TRY(cut_padding(e, mask, where, &cut, err));
    return find_documents(e, row, whole, cut, where, err);
}
