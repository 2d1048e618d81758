/* cmocka_all.h - cmocka with the headers it needs before it. */
#ifndef OC_CMOCKA_ALL_H
#define OC_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#endif
