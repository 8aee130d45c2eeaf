#include "io_internal.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

void field_io_start(void) {
  /* Many cluster file systems cannot lock. Inputs are only read; an output is written under a name that nobody else
   * uses. */
  setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  signal(SIGXFSZ,
         SIG_IGN); /* a file above the limit of `ulimit -f` is an error to report, not a reason to die */
}

void field_io_version(char text[64]) {
  unsigned major = 0, minor = 0, release = 0;
#ifdef H5_HAVE_PARALLEL
  const char *kind = "parallel";
#else
  const char *kind = "serial";
#endif
  H5get_libversion(&major, &minor, &release);
  snprintf(text, 64, "%u.%u.%u (%s)", major, minor, release, kind);
}

/* H5Ewalk2 calls this from the innermost function outwards. It keeps the first description, or the one that a filter
 * is missing: further in, HDF5 says only in which folders it looked for the filter. */
static herr_t field_keep_innermost(unsigned n, const H5E_error2_t *record, void *text) {
  (void)n;
  if (record->desc && (!*(char *)text || strstr(record->desc, "is not registered")))
    snprintf(text, HDF5_TEXT, "%s", record->desc);
  return 0;
}

/* Says how to mend a file that a library of another version, or with other filters, has written. */
static const char *field_cure(const char *why) {
  if (strstr(why, "is not registered"))
    return "; where that filter is, `h5repack -f NONE FILE NEW` writes a file without";
  if (strstr(why, "version") || strncmp(why, "unknown ", 8) == 0)
    return "; probably written by a newer HDF5 library than this program's: where that is, "
           "`h5repack --low=0 --high=2 FILE NEW` writes a file for older ones";
  return "";
}

const char *hdf5_why(char text[HDF5_TEXT]) {
  static const char mark[] =
      "error message = '"; /* the system's words among the file driver's many numbers */
  text[0] = 0;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, field_keep_innermost, text);
  char *system = strstr(text, mark), *end = system ? strchr(system + strlen(mark), '\'') : NULL;
  if (end) {
    *end = 0;
    memmove(text, system + strlen(mark), strlen(system + strlen(mark)) + 1);
  }
  const size_t used = strlen(text);
  snprintf(text + used, HDF5_TEXT - used, "%s", field_cure(text));
  return text[0] ? text : "no reason given by HDF5";
}

/* HDF5 converts by the type's offsets without checking them, even beyond its memory. */
bool hdf5_sound_number(hid_t type) {
  enum { MOST = 16 /* bytes: a long double */ };
  const H5T_class_t class = H5Tget_class(type);
  if (class != H5T_INTEGER && class != H5T_FLOAT) return false;
  const size_t size = H5Tget_size(type), precision = H5Tget_precision(type);
  const int offset = H5Tget_offset(type);
  const H5T_order_t order = H5Tget_order(type);
  size_t sign, exponent, exponent_bits, mantissa, mantissa_bits;
  if (size < 1 || size > MOST || precision < 1 || offset < 0 || (size_t)offset + precision > 8 * size)
    return false;
  if (order != H5T_ORDER_LE && order != H5T_ORDER_BE) return false;
  if (class == H5T_INTEGER) return true;
  return H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0 &&
         sign < precision && exponent_bits >= 1 && exponent_bits <= 8 * sizeof(int) && mantissa_bits >= 1 &&
         exponent + exponent_bits <= precision && mantissa + mantissa_bits <= precision;
}

static pthread_mutex_t field_hdf5 = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void hdf5_take(void) {
  pthread_mutex_lock(&field_hdf5);
}

void hdf5_give(void) {
  pthread_mutex_unlock(&field_hdf5);
}

void shape_print(int rank, const hsize_t *shape, char text[SHAPE_TEXT]) {
  int used = snprintf(text, SHAPE_TEXT, "(");
  for (int i = 0; i < rank; i++)
    used += snprintf(text + used, (size_t)(SHAPE_TEXT - used), "%llu%s", (unsigned long long)shape[i],
                     i < rank - 1 ? ", "
                     : rank == 1  ? ",)"
                                  : ")");
}
