#ifndef RAPT_API_H
#define RAPT_API_H

/* For C and C++: the version, and the macro that marks exported names. */

#define RAPT_VERSION_MAJOR 0
#define RAPT_VERSION_MINOR 1
#define RAPT_VERSION_PATCH 0

/* Raised when programs must be recompiled; the shared libraries are named after it. */
#define RAPT_ABI_VERSION 1

#if defined(__GNUC__)
#define RAPT_API __attribute__((visibility("default")))
#else
#define RAPT_API
#endif

#endif /* RAPT_API_H */
