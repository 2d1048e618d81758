/* Any bytes as a chat template over a small conversation: no crash, no bad access, bounded work,
 * valid text and sound runs of what is accepted. Build with -fsanitize=fuzzer,address,undefined, or
 * run by test_template_corpus. */
#include "template/template.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char variables_text[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\" S "
    "\"},{\"role\":\"user\",\"content\":\"U\\u00e9"
    "\\n\\ud83d\\ude00\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":"
    "{\"name\":\"f\",\"arguments\":{\"x\":1,\"y\":[2.5,null,true]}}}]}],\"tools\":[{\"type\":"
    "\"function\",\"function\":{\"name\":\"f\"}}],\"bos_token\":\"<s>\",\"l\":[3,1,2],\"s\":"
    "\"Hello, "
    "W\",\"d\":{\"b\":1,\"items\":2,\"1\":{}},\"i\":7,\"f\":2.5,\"t\":true,\"nil\":null,\"e\":\"\","
    "\"u\":\"Gr\\u00fc\\u00dfe\",\"people\":[{\"name\":\"Ann\",\"age\":30},{\"name\":\"bob\","
    "\"age\":"
    "25}],\"ls\":[\"b\",\"A\"],\"el\":[],\"nest\":[[1,2],[3],[]],\"add_generation_prompt\":true}";

static void check(const oc_rendered *r) {
    json_t *text = json_stringn(r->text, r->n); /* NULL unless it is UTF-8 */
    if (text == NULL || r->text[r->n] != '\0') abort();
    json_decref(text);
    for (size_t i = 0; i < r->n_runs; i++) {
        const oc_render_run *u = &r->runs[i];
        if (u->begin >= u->end || u->end > r->n) abort();
        if (u->message > 2 && (u->message != OC_RENDER_NOBODY || !u->generation)) abort();
        if (i > 0 && u[-1].end > u->begin) abort();
        if (u->generation && !r->has_generation) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static json_t *variables;
    static const oc_template_limits limits = {50000, 1 << 18, 100};
    const int64_t now = 1721997296;
    oc_template *t;
    oc_error err = {0};
    if (variables == NULL) variables = json_loads(variables_text, 0, NULL);
    if (variables == NULL) abort();
    if (oc_template_parse(&t, (const char *)data, n, "fuzz", &err) != OC_OK) {
        if (t != NULL || strncmp(err.message, "fuzz:", 5) != 0) abort();
        return 0;
    }
    oc_rendered r;
    if (oc_template_render(t, variables, &limits, &now, &r, &err) == OC_OK)
        check(&r);
    else if (r.text != NULL || r.runs != NULL || strncmp(err.message, "fuzz:", 5) != 0)
        abort();
    oc_rendered_free(&r);
    oc_template_close(t);
    return 0;
}
