/* What code that Rust instruments for ThreadSanitizer calls, and older runtimes of C compilers do not have. */
#include <stddef.h>
#include <string.h>

void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memset(void *to, int value, size_t bytes);

__attribute__((weak)) void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    return memcpy(to, from, bytes);
}

__attribute__((weak)) void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    return memmove(to, from, bytes);
}

__attribute__((weak)) void *__tsan_memset(void *to, int value, size_t bytes)
{
    return memset(to, value, bytes);
}
