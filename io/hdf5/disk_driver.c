#include "io_internal.h"
#if H5_VERSION_GE(1, 13, 2)
#include <H5FDdevelop.h> /* where newer versions keep H5FD_class_t */
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct disk_file {
  H5FD_t base; /* HDF5's part, must come first */
  int fd;
  haddr_t eoa;  /* end of what HDF5 has allocated */
  haddr_t eof;  /* end of the file on disk */
  new_hdf5 *to; /* not owned; the file access list carries this pointer */
} disk_file;

static void disk_remember(const disk_file *f) {
  FAIL(&f->to->failure, FILE_WRITE, f->to->name, strerror(errno));
}

static H5FD_t *disk_open(const char *name, unsigned flags, hid_t access, haddr_t limit) {
  (void)limit;
  new_hdf5 *const *to = H5Pget_driver_info(access);
  disk_file *f = to ? calloc(1, sizeof *f) : NULL;
  if (!f) return NULL;
  int mode = flags & H5F_ACC_RDWR ? O_RDWR : O_RDONLY;
  mode |= (flags & H5F_ACC_CREAT ? O_CREAT : 0) | (flags & H5F_ACC_TRUNC ? O_TRUNC : 0) |
          (flags & H5F_ACC_EXCL ? O_EXCL : 0);
  f->to = *to;
  f->fd = open(name, mode | O_CLOEXEC, 0666);
  off_t size = f->fd < 0 ? -1 : lseek(f->fd, 0, SEEK_END);
  if (size < 0) {
    disk_remember(f);
    if (f->fd >= 0) close(f->fd);
    free(f);
    return NULL;
  }
  f->eof = (haddr_t)size;
  return &f->base;
}

static herr_t disk_close(H5FD_t *base) {
  disk_file *f = (disk_file *)base;
  if (close(f->fd)) disk_remember(f); /* network file systems report late */
  free(f);
  return 0;
}

static herr_t disk_query(const H5FD_t *base, unsigned long *flags) {
  (void)base;
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA; /* as HDF5's own POSIX driver */
  return 0;
}

static haddr_t disk_get_eoa(const H5FD_t *base, H5FD_mem_t type) {
  (void)type;
  return ((const disk_file *)base)->eoa;
}

static herr_t disk_set_eoa(H5FD_t *base, H5FD_mem_t type, haddr_t eoa) {
  (void)type;
  ((disk_file *)base)->eoa = eoa;
  return 0;
}

static haddr_t disk_get_eof(const H5FD_t *base, H5FD_mem_t type) {
  (void)type;
  return ((const disk_file *)base)->eof;
}

static herr_t disk_read(H5FD_t *base, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t size, void *to) {
  (void)type, (void)transfer;
  const disk_file *f = (const disk_file *)base;
  const row_file file = {.name = f->to->name, .fd = f->fd};
  const haddr_t there = at >= f->eof ? 0 : f->eof - at < size ? f->eof - at : size;
  memset(to, 0, size); /* for bytes that are allocated but not written, or not written after a failure */
  if (!f->to->failure.id) row_file_get(&file, at, to, there, &f->to->failure);
  return 0;
}

static herr_t disk_write(H5FD_t *base, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t size,
                         const void *from) {
  (void)type, (void)transfer;
  disk_file *f = (disk_file *)base;
  const row_file file = {.name = f->to->name, .fd = f->fd};
  if (!f->to->failure.id) row_file_put(&file, at, from, size, &f->to->failure);
  if (at + size > f->eof) f->eof = at + size;
  return 0;
}

/* Brings the file to the length that HDF5 has allocated. fallocate would take the space now, while all ranks wait for
 * one: on a tmpfs it takes longer than their writes. */
static herr_t disk_truncate(H5FD_t *base, hid_t transfer, hbool_t closing) {
  (void)transfer, (void)closing;
  disk_file *f = (disk_file *)base;
  if (f->eoa != f->eof && !f->to->failure.id && ftruncate(f->fd, (off_t)f->eoa)) disk_remember(f);
  f->eof = f->eoa;
  return 0;
}

static const H5FD_class_t disk_class = {
#ifdef H5FD_CLASS_VERSION
    .version = H5FD_CLASS_VERSION,
    .value =
        (H5FD_class_value_t)511, /* of the range left to drivers that are not registered with the HDF Group */
#endif
    .name = "stencil_disk",
    .maxaddr = (haddr_t)INT64_MAX,
    .fc_degree = H5F_CLOSE_WEAK,
    .fapl_size = sizeof(new_hdf5 *),
    .open = disk_open,
    .close = disk_close,
    .query = disk_query,
    .get_eoa = disk_get_eoa,
    .set_eoa = disk_set_eoa,
    .get_eof = disk_get_eof,
    .read = disk_read,
    .write = disk_write,
    .truncate = disk_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

/* Makes the access list of a file. HDF5 counts the uses of a driver, so the list keeps the driver registered. */
static bool disk_open_access(new_hdf5 *f) {
  enum { ALIGNED_BYTES = 1 << 16, PAGE_BYTES = 4096 };
  hid_t driver = H5FDregister(&disk_class);
  f->access = H5Pcreate(H5P_FILE_ACCESS);
  bool ok = f->access >= 0 && driver >= 0 && H5Pset_driver(f->access, driver, &f) >= 0 &&
            H5Pset_alignment(f->access, ALIGNED_BYTES, PAGE_BYTES) >= 0;
  if (driver >= 0 && H5FDunregister(driver) < 0) ok = false;
  return ok;
}

void new_hdf5_create(new_hdf5 *f, const char *temporary, uint64_t user_block) {
  hid_t list = H5Pcreate(H5P_FILE_CREATE);
  bool ok = disk_open_access(f) && list >= 0;
  if (ok && user_block)
    ok = H5Pset_userblock(list, user_block) >= 0 &&
         H5Pset_libver_bounds(f->access, H5F_LIBVER_V110, H5F_LIBVER_V110) >= 0;
  f->file = ok ? H5Fcreate(temporary, H5F_ACC_TRUNC, list, f->access) : H5I_INVALID_HID;
  new_hdf5_check(f, f->file >= 0);
  if (list >= 0) H5Pclose(list);
}

bool new_hdf5_check(new_hdf5 *f, bool ok) {
  if (!ok) FAIL(&f->failure, FILE_WRITE, f->name, HDF5_WHY);
  return !f->failure.id;
}

int new_hdf5_failed(const new_hdf5 *f, error *e) {
  if (!e->id) *e = f->failure;
  return e->id;
}

/* H5Fclose drops the file's reference to its driver and only then calls the driver (H5FD_close of 1.10). So the
 * access list must keep its own reference until then. */
int new_hdf5_close(new_hdf5 *f, error *e) {
  if (f->file >= 0 && H5Fclose(f->file) < 0)
    FAIL(&f->failure, FILE_WRITE, f->name, "HDF5 could not close it");
  if (f->access > 0) H5Pclose(f->access);
  f->file = H5I_INVALID_HID, f->access = 0;
  return new_hdf5_failed(f, e);
}

int new_file_create(new_file *f, new_hdf5 *to, new_file_content *content, const void *context, error *e) {
  new_hdf5 own = {.file = H5I_INVALID_HID};
  new_hdf5 *file = to ? to : &own;
  file->name = f->name;
  temporary_name(f->plan.temporary, sizeof f->plan.temporary, f->name);
  hdf5_take();
  field_io_start(); /* of this thread */
  new_hdf5_create(file, f->plan.temporary, f->user_block);
  content(file, f, context);
  if (to && !to->failure.id) new_hdf5_check(to, H5Fflush(to->file, H5F_SCOPE_GLOBAL) >= 0);
  if (to)
    new_hdf5_failed(to, e);
  else if (new_hdf5_close(&own, e))
    new_file_drop(f, e);
  hdf5_give();
  return e->id;
}
