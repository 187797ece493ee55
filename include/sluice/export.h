/* SL_API marks the functions that libsluice.so exports: all functions that these headers declare,
 * and no others. */
#ifndef SLUICE_EXPORT_H
#define SLUICE_EXPORT_H

#ifndef SL_API
#if defined(__GNUC__)
#define SL_API __attribute__((visibility("default")))
#else
#define SL_API
#endif
#endif

#endif
