/* banned.h - functions that may not be called, refused by the compiler.
 *
 * The build includes it before every source file. It declares what the C library's headers will
 * declare again, and adds an attribute that is an error here; it includes nothing, so that it hides
 * no missing include. */
#ifndef OC_BANNED_H
#define OC_BANNED_H

#define OC_BANNED(instead) __attribute__((deprecated("banned: " instead)))

char *strcpy(char *, const char *) OC_BANNED("use memcpy() or snprintf() with the size");
char *stpcpy(char *, const char *) OC_BANNED("use memcpy() or snprintf() with the size");
char *strcat(char *, const char *) OC_BANNED("use snprintf() with the size");
char *strncpy(char *, const char *, __SIZE_TYPE__) OC_BANNED("it may not terminate");
char *strncat(char *, const char *, __SIZE_TYPE__) OC_BANNED("use snprintf() with the size");
int sprintf(char *, const char *, ...) OC_BANNED("use snprintf()");
int vsprintf(char *, const char *, __builtin_va_list) OC_BANNED("use vsnprintf()");
char *gets(char *) OC_BANNED("use fgets()");
char *strtok(char *, const char *) OC_BANNED("it has hidden state; use strcspn()");
int atoi(const char *) OC_BANNED("use strtol() and check");
long atol(const char *) OC_BANNED("use strtol() and check");
long long atoll(const char *) OC_BANNED("use strtoll() and check");
double atof(const char *) OC_BANNED("use strtod() and check");
int rand(void) OC_BANNED("it has hidden state");
void srand(unsigned) OC_BANNED("it has hidden state");
char *tmpnam(char *) OC_BANNED("use mkstemp()");
int system(const char *) OC_BANNED("use posix_spawn()");

#ifdef OC_LIBRARY
void exit(int) OC_BANNED("a library returns a status");
void _exit(int) OC_BANNED("a library returns a status");
void abort(void) OC_BANNED("a library returns a status");
int printf(const char *, ...) OC_BANNED("a library does not print; use oc_log()");
int puts(const char *) OC_BANNED("a library does not print; use oc_log()");
int putchar(int) OC_BANNED("a library does not print; use oc_log()");
void perror(const char *) OC_BANNED("a library does not print; use oc_fail_errno()");
#endif

#endif
