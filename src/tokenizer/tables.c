/* Written by tools/make_tokenizer_expected.py --unicode. */
#include "tokenizer/unicode.h"

const oc_tk_range oc_tk_young[] = {
    {0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},
    {0xafa, 0xaff},     {0xb55, 0xb55},     {0xc04, 0xc04},     {0xc3c, 0xc3c},
    {0xcf3, 0xcf3},     {0xd00, 0xd00},     {0xd3b, 0xd3c},     {0xd81, 0xd81},
    {0xeba, 0xeba},     {0xece, 0xece},     {0x1715, 0x1715},   {0x180f, 0x180f},
    {0x1abf, 0x1ace},   {0x1b4e, 0x1b4f},   {0x1b7f, 0x1b7f},   {0x1c89, 0x1c8a},
    {0x1cf7, 0x1cf7},   {0x1df6, 0x1dfa},   {0x2427, 0x2429},   {0x2ffc, 0x2fff},
    {0x31e4, 0x31e5},   {0x31ef, 0x31ef},   {0x32ff, 0x32ff},   {0xa7cb, 0xa7cd},
    {0xa7da, 0xa7dc},   {0xa7f2, 0xa7f4},   {0xa82c, 0xa82c},   {0xa8ff, 0xa8ff},
    {0xab69, 0xab69},   {0x105c0, 0x105f3}, {0x10781, 0x10785}, {0x10787, 0x107b0},
    {0x107b2, 0x107ba}, {0x10d24, 0x10d27}, {0x10d40, 0x10d65}, {0x10d69, 0x10d85},
    {0x10d8e, 0x10d8f}, {0x10eab, 0x10eac}, {0x10ec2, 0x10ec4}, {0x10efc, 0x10eff},
    {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x11073, 0x11074},
    {0x110c2, 0x110c2}, {0x11145, 0x11146}, {0x111c9, 0x111c9}, {0x111ce, 0x111cf},
    {0x1123f, 0x11241}, {0x1133b, 0x1133b}, {0x11380, 0x11389}, {0x1138b, 0x1138b},
    {0x1138e, 0x1138e}, {0x11390, 0x113b5}, {0x113b7, 0x113c0}, {0x113c2, 0x113c2},
    {0x113c5, 0x113c5}, {0x113c7, 0x113ca}, {0x113cc, 0x113d5}, {0x113d7, 0x113d8},
    {0x113e1, 0x113e2}, {0x1145e, 0x1145e}, {0x116d0, 0x116e3}, {0x1182c, 0x1183a},
    {0x11930, 0x11935}, {0x11937, 0x11938}, {0x1193b, 0x1193e}, {0x11940, 0x11940},
    {0x11942, 0x11943}, {0x119d1, 0x119d7}, {0x119da, 0x119e0}, {0x119e4, 0x119e4},
    {0x11a01, 0x11a0a}, {0x11a33, 0x11a39}, {0x11a3b, 0x11a3e}, {0x11a47, 0x11a47},
    {0x11a51, 0x11a5b}, {0x11a8a, 0x11a99}, {0x11b00, 0x11b09}, {0x11bc0, 0x11be1},
    {0x11bf0, 0x11bf9}, {0x11d31, 0x11d36}, {0x11d3a, 0x11d3a}, {0x11d3c, 0x11d3d},
    {0x11d3f, 0x11d45}, {0x11d47, 0x11d47}, {0x11d8a, 0x11d8e}, {0x11d90, 0x11d91},
    {0x11d93, 0x11d97}, {0x11ef3, 0x11ef6}, {0x11f00, 0x11f10}, {0x11f12, 0x11f3a},
    {0x11f3e, 0x11f5a}, {0x1342f, 0x1342f}, {0x13439, 0x13455}, {0x13460, 0x143fa},
    {0x16100, 0x16139}, {0x16d40, 0x16d79}, {0x16f4f, 0x16f4f}, {0x16f7f, 0x16f87},
    {0x16fe4, 0x16fe4}, {0x16ff0, 0x16ff1}, {0x18cff, 0x18cff}, {0x1b132, 0x1b132},
    {0x1b155, 0x1b155}, {0x1cc00, 0x1ccf9}, {0x1cd00, 0x1ceb3}, {0x1cf00, 0x1cf2d},
    {0x1cf30, 0x1cf46}, {0x1d2c0, 0x1d2d3}, {0x1df25, 0x1df2a}, {0x1e030, 0x1e06d},
    {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef},
    {0x1e4d0, 0x1e4f9}, {0x1e5d0, 0x1e5fa}, {0x1e5ff, 0x1e5ff}, {0x1f16c, 0x1f16c},
    {0x1f6dc, 0x1f6dc}, {0x1f774, 0x1f776}, {0x1f77b, 0x1f77f}, {0x1f7d9, 0x1f7d9},
    {0x1f8b2, 0x1f8bb}, {0x1f8c0, 0x1f8c1}, {0x1fa75, 0x1fa77}, {0x1fa87, 0x1fa89},
    {0x1fa8f, 0x1fa8f}, {0x1faad, 0x1faaf}, {0x1fabb, 0x1fabf}, {0x1fac6, 0x1fac6},
    {0x1face, 0x1facf}, {0x1fada, 0x1fadc}, {0x1fadf, 0x1fadf}, {0x1fae8, 0x1fae9},
    {0x1faf7, 0x1faf8}, {0x1fbcb, 0x1fbf9}, {0x2b739, 0x2b739}, {0x2ebf0, 0x2ee5d},
    {0x31350, 0x323af}};
const size_t oc_tk_young_count = 145;
const oc_tk_range oc_tk_more_numeric[] = {
    {0x10d40, 0x10d49}, {0x116d0, 0x116e3}, {0x11bf0, 0x11bf9},
    {0x11de0, 0x11de9}, {0x16130, 0x16139}, {0x16d70, 0x16d79},
    {0x16ff4, 0x16ff6}, {0x1ccf0, 0x1ccf9}, {0x1e5f1, 0x1e5fa}};
const size_t oc_tk_more_numeric_count = 9;
const oc_tk_range oc_tk_more_word[] = {
    {0x897, 0x897},     {0x1c89, 0x1c8a},   {0x200c, 0x200d},   {0x24b6, 0x24e9},
    {0xa7cb, 0xa7cd},   {0xa7da, 0xa7dc},   {0x105c0, 0x105f3}, {0x10d40, 0x10d65},
    {0x10d69, 0x10d6d}, {0x10d6f, 0x10d85}, {0x10ec2, 0x10ec4}, {0x10efc, 0x10efc},
    {0x11380, 0x11389}, {0x1138b, 0x1138b}, {0x1138e, 0x1138e}, {0x11390, 0x113b5},
    {0x113b7, 0x113c0}, {0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113ca},
    {0x113cc, 0x113d3}, {0x113e1, 0x113e2}, {0x116d0, 0x116e3}, {0x11bc0, 0x11be0},
    {0x11bf0, 0x11bf9}, {0x11f5a, 0x11f5a}, {0x13460, 0x143fa}, {0x16100, 0x16139},
    {0x16d40, 0x16d6c}, {0x16d70, 0x16d79}, {0x18cff, 0x18cff}, {0x1ccf0, 0x1ccf9},
    {0x1e5d0, 0x1e5fa}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189},
    {0x2ebf0, 0x2ee5d}};
const size_t oc_tk_more_word_count = 37;
const oc_tk_range oc_tk_more_punctuation[] = {{0x166d, 0x166d}, {0x111c9, 0x111c9}};
const size_t oc_tk_more_punctuation_count = 2;
const oc_tk_range oc_tk_fewer_punctuation[] = {
    {0x61d, 0x61d},     {0x9fd, 0x9fd},     {0xa76, 0xa76},     {0xc77, 0xc77},
    {0xc84, 0xc84},     {0x1b7d, 0x1b7e},   {0x2e43, 0x2e4f},   {0x2e52, 0x2e5d},
    {0x10ead, 0x10ead}, {0x10f55, 0x10f59}, {0x10f86, 0x10f89}, {0x1144b, 0x1144f},
    {0x1145a, 0x1145b}, {0x1145d, 0x1145d}, {0x11660, 0x1166c}, {0x116b9, 0x116b9},
    {0x1183b, 0x1183b}, {0x11944, 0x11946}, {0x119e2, 0x119e2}, {0x11a3f, 0x11a46},
    {0x11a9a, 0x11a9c}, {0x11a9e, 0x11aa2}, {0x11b00, 0x11b09}, {0x11c41, 0x11c45},
    {0x11c70, 0x11c71}, {0x11ef7, 0x11ef8}, {0x11f43, 0x11f4f}, {0x11fff, 0x11fff},
    {0x12ff1, 0x12ff2}, {0x16e97, 0x16e9a}, {0x16fe2, 0x16fe2}, {0x1e95e, 0x1e95f}};
const size_t oc_tk_fewer_punctuation_count = 32;
const oc_tk_range oc_tk_lower_pairs[] = {
    {0x1c89, 0x1c8a},   {0xa7cb, 0x264},    {0xa7cc, 0xa7cd},   {0xa7ce, 0xa7cf},
    {0xa7d2, 0xa7d3},   {0xa7d4, 0xa7d5},   {0xa7da, 0xa7db},   {0xa7dc, 0x19b},
    {0x10d50, 0x10d70}, {0x10d51, 0x10d71}, {0x10d52, 0x10d72}, {0x10d53, 0x10d73},
    {0x10d54, 0x10d74}, {0x10d55, 0x10d75}, {0x10d56, 0x10d76}, {0x10d57, 0x10d77},
    {0x10d58, 0x10d78}, {0x10d59, 0x10d79}, {0x10d5a, 0x10d7a}, {0x10d5b, 0x10d7b},
    {0x10d5c, 0x10d7c}, {0x10d5d, 0x10d7d}, {0x10d5e, 0x10d7e}, {0x10d5f, 0x10d7f},
    {0x10d60, 0x10d80}, {0x10d61, 0x10d81}, {0x10d62, 0x10d82}, {0x10d63, 0x10d83},
    {0x10d64, 0x10d84}, {0x10d65, 0x10d85}, {0x16ea0, 0x16ebb}, {0x16ea1, 0x16ebc},
    {0x16ea2, 0x16ebd}, {0x16ea3, 0x16ebe}, {0x16ea4, 0x16ebf}, {0x16ea5, 0x16ec0},
    {0x16ea6, 0x16ec1}, {0x16ea7, 0x16ec2}, {0x16ea8, 0x16ec3}, {0x16ea9, 0x16ec4},
    {0x16eaa, 0x16ec5}, {0x16eab, 0x16ec6}, {0x16eac, 0x16ec7}, {0x16ead, 0x16ec8},
    {0x16eae, 0x16ec9}, {0x16eaf, 0x16eca}, {0x16eb0, 0x16ecb}, {0x16eb1, 0x16ecc},
    {0x16eb2, 0x16ecd}, {0x16eb3, 0x16ece}, {0x16eb4, 0x16ecf}, {0x16eb5, 0x16ed0},
    {0x16eb6, 0x16ed1}, {0x16eb7, 0x16ed2}, {0x16eb8, 0x16ed3}};
const size_t oc_tk_lower_pairs_count = 55;
const oc_tk_extra oc_tk_extras[] = {
    {"l",
     "\\x{1c89}-\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{"
     "10d65}\\x{10d6f}-\\x{10d85}\\x{10ec2}-\\x{10ec4}\\x{1123f}-\\x{11240}\\x{11380}-\\x{11389}"
     "\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}\\x{11bc0}-\\x{11be0}"
     "\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}\\x{13460}"
     "-\\x{143fa}\\x{16100}-\\x{1611d}\\x{16d40}-\\x{16d6c}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1df25}"
     "-\\x{1df2a}\\x{1e030}-\\x{1e06d}\\x{1e4d0}-\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{"
     "2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"},
    {"lu", "\\x{1c89}\\x{a7cb}-\\x{a7cc}\\x{a7da}\\x{a7dc}\\x{10d50}-\\x{10d65}"},
    {"ll", "\\x{1c8a}\\x{a7cd}\\x{a7db}\\x{10d70}-\\x{10d85}\\x{1df25}-\\x{1df2a}"},
    {"lm", "\\x{10d4e}\\x{10d6f}\\x{16d40}-\\x{16d42}\\x{16d6b}-\\x{16d6c}\\x{1e030}-\\x{1e06d}\\x{"
           "1e4eb}"},
    {"lo", "\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d4d}\\x{10d4f}\\x{10ec2}-\\x{10ec4}\\x{1123f}-"
           "\\x{11240}\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{"
           "113d1}\\x{113d3}\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{"
           "11f33}\\x{1342f}\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}\\x{"
           "16d43}-\\x{16d6a}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1e4d0}-\\x{1e4ea}\\x{1e5d0}-\\x{"
           "1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"},
    {"m", "\\x{897}\\x{cf3}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}\\x{113b8}-"
          "\\x{113c0}\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113d0}\\x{113d2}\\x{"
          "113e1}-\\x{113e2}\\x{11f00}-\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}\\x{11f3e}-\\x{"
          "11f42}\\x{11f5a}\\x{13440}\\x{13447}-\\x{13455}\\x{1611e}-\\x{1612f}\\x{1e08f}\\x{1e4ec}"
          "-\\x{1e4ef}\\x{1e5ee}-\\x{1e5ef}"},
    {"mn",
     "\\x{897}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}\\x{113bb}-\\x{113c0}\\x{"
     "113ce}\\x{113d0}\\x{113d2}\\x{113e1}-\\x{113e2}\\x{11f00}-\\x{11f01}\\x{11f36}-\\x{11f3a}\\x{"
     "11f40}\\x{11f42}\\x{11f5a}\\x{13440}\\x{13447}-\\x{13455}\\x{1611e}-\\x{16129}\\x{1612d}-\\x{"
     "1612f}\\x{1e08f}\\x{1e4ec}-\\x{1e4ef}\\x{1e5ee}-\\x{1e5ef}"},
    {"mc", "\\x{cf3}\\x{113b8}-\\x{113ba}\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{"
           "113cd}\\x{113cf}\\x{1171e}\\x{11f03}\\x{11f34}-\\x{11f35}\\x{11f3e}-\\x{11f3f}\\x{"
           "11f41}\\x{1612a}-\\x{1612c}"},
    {"n", "\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}\\x{"
          "16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1d2c0}-\\x{1d2d3}\\x{"
          "1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}"},
    {"nd", "\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}"
           "\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1e4f0}-\\x{1e4f9}"
           "\\x{1e5f1}-\\x{1e5fa}"},
    {"no", "\\x{1d2c0}-\\x{1d2d3}"},
    {"p", "\\x{1b4e}-\\x{1b4f}\\x{1b7f}\\x{10d6e}\\x{113d4}-\\x{113d5}\\x{113d7}-\\x{113d8}\\x{"
          "11b00}-\\x{11b09}\\x{11be1}\\x{11f43}-\\x{11f4f}\\x{16d6d}-\\x{16d6f}\\x{1e5ff}"},
    {"pd", "\\x{10d6e}"},
    {"po", "\\x{1b4e}-\\x{1b4f}\\x{1b7f}\\x{113d4}-\\x{113d5}\\x{113d7}-\\x{113d8}\\x{11b00}-\\x{"
           "11b09}\\x{11be1}\\x{11f43}-\\x{11f4f}\\x{16d6d}-\\x{16d6f}\\x{1e5ff}"},
    {"s",
     "\\x{2427}-\\x{2429}\\x{2ffc}-\\x{2fff}\\x{31e4}-\\x{31e5}\\x{31ef}\\x{10d8e}-\\x{10d8f}\\x{"
     "1cc00}-\\x{1ccef}\\x{1cd00}-\\x{1ceb3}\\x{1f6dc}\\x{1f774}-\\x{1f776}\\x{1f77b}-\\x{1f77f}"
     "\\x{1f7d9}\\x{1f8b2}-\\x{1f8bb}\\x{1f8c0}-\\x{1f8c1}\\x{1fa75}-\\x{1fa77}\\x{1fa87}-\\x{"
     "1fa89}\\x{1fa8f}\\x{1faad}-\\x{1faaf}\\x{1fabb}-\\x{1fabf}\\x{1fac6}\\x{1face}-\\x{1facf}\\x{"
     "1fada}-\\x{1fadc}\\x{1fadf}\\x{1fae8}-\\x{1fae9}\\x{1faf7}-\\x{1faf8}\\x{1fbcb}-\\x{1fbef}"},
    {"sm", "\\x{10d8e}-\\x{10d8f}"},
    {"so",
     "\\x{2427}-\\x{2429}\\x{2ffc}-\\x{2fff}\\x{31e4}-\\x{31e5}\\x{31ef}\\x{1cc00}-\\x{1ccef}\\x{"
     "1cd00}-\\x{1ceb3}\\x{1f6dc}\\x{1f774}-\\x{1f776}\\x{1f77b}-\\x{1f77f}\\x{1f7d9}\\x{1f8b2}-"
     "\\x{1f8bb}\\x{1f8c0}-\\x{1f8c1}\\x{1fa75}-\\x{1fa77}\\x{1fa87}-\\x{1fa89}\\x{1fa8f}\\x{1faad}"
     "-\\x{1faaf}\\x{1fabb}-\\x{1fabf}\\x{1fac6}\\x{1face}-\\x{1facf}\\x{1fada}-\\x{1fadc}\\x{"
     "1fadf}\\x{1fae8}-\\x{1fae9}\\x{1faf7}-\\x{1faf8}\\x{1fbcb}-\\x{1fbef}"},
    {"cf", "\\x{13439}-\\x{1343f}"},
    {"alphabetic",
     "\\x{363}-\\x{36f}\\x{897}\\x{c04}\\x{cf3}\\x{f82}-\\x{f83}\\x{1c89}-\\x{1c8a}\\x{1dd3}-\\x{"
     "1de6}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d65}\\x{"
     "10d69}\\x{10d6f}-\\x{10d85}\\x{10ec2}-\\x{10ec4}\\x{10efc}\\x{11080}-\\x{11081}\\x{1123f}-"
     "\\x{11241}\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}-\\x{113c0}"
     "\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113cd}\\x{113d1}\\x{113d3}\\x{11bc0}-"
     "\\x{11be0}\\x{11f00}-\\x{11f10}\\x{11f12}-\\x{11f3a}\\x{11f3e}-\\x{11f40}\\x{1342f}\\x{13441}"
     "-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1612e}\\x{16d40}-\\x{16d6c}\\x{18cff}\\x{"
     "1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}\\x{1e030}-\\x{1e06d}\\x{1e08f}\\x{1e4d0}-\\x{1e4eb}\\x{"
     "1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"},
    {"uppercase", "\\x{1c89}\\x{a7cb}-\\x{a7cc}\\x{a7da}\\x{a7dc}\\x{10d50}-\\x{10d65}"},
    {"lowercase", "\\x{10fc}\\x{1c8a}\\x{a7cd}\\x{a7db}\\x{a7f2}-\\x{a7f4}\\x{ab69}\\x{10d70}-\\x{"
                  "10d85}\\x{1df25}-\\x{1df2a}\\x{1e030}-\\x{1e06d}"},
    {"han", "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"},
    {"hiragana", "\\x{1b132}"},
    {"katakana", "\\x{1b155}"},
    {"latin", "\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{1df25}-\\x{1df2a}"},
    {"cyrillic", "\\x{1c89}-\\x{1c8a}\\x{1e030}-\\x{1e06d}\\x{1e08f}"},
    {"arabic", "\\x{897}\\x{10ec2}-\\x{10ec4}\\x{10efc}-\\x{10eff}"},
    {"devanagari", "\\x{11b00}-\\x{11b09}"}};
const size_t oc_tk_extras_count = 28;
