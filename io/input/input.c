#include "input.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "config/config.h"

/* --- files ------------------------------------------------------------------------------------------------------ */

int input_check_file(const char *file, const char *shown, error *e) {
  struct stat s; /* looked at first: opening some devices already does something */
  int reason = stat(file, &s) ? errno : S_ISDIR(s.st_mode) ? EISDIR : 0;
  if (!reason && !S_ISREG(s.st_mode)) return FAIL(e, FIELD_FILE, shown, "it is not a regular file");
  int fd = reason ? -1 : open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (!reason && fd < 0) reason = errno;
  if (fd >= 0) close(fd);
  struct rlimit most;
  if (reason == EMFILE && !getrlimit(RLIMIT_NOFILE, &most))
    return FAIL(e, FIELD_FILES_OPEN, shown, strerror(reason), (uint64_t)most.rlim_cur);
  return reason ? FAIL(e, FIELD_FILE, shown, strerror(reason)) : 0;
}

/* Is there a `name` in the folder whose name is `length` characters long? */
static bool input_look(char found[FILE_NAME], const char *folder, size_t length, const char *name) {
  struct stat s;
  return length && snprintf(found, FILE_NAME, "%.*s/%s", (int)length, folder, name) < FILE_NAME &&
         !stat(found, &s);
}

int input_find_file(const char *from, const char *prefixes, const char *file, char found[FILE_NAME],
                    error *e) {
  struct stat s;
  char folder[FILE_NAME];
  const char *last = strrchr(file, '/'), *name = *file == '/' ? last + 1 : file;
  if (strlen(file) >= FILE_NAME) return FAIL(e, FIELD_FILE, file, strerror(ENAMETOOLONG));
  bool there = *file == '/' && !stat(strcpy(found, file), &s);
  for (const char *p = prefixes ? prefixes : ""; !there && *p; p += strcspn(p, ":"), p += *p == ':')
    there = input_look(found, p, strcspn(p, ":"), name);
  path_folder(from, folder);
  if (!there) there = input_look(found, folder, strlen(folder), name);
  if (!there) there = !stat(strcpy(found, name), &s);
  char *target = there ? NULL : realpath(from, NULL);
  if (target) there = input_look(found, target, (size_t)(strrchr(target, '/') - target), name);
  free(target);
  if (!there) strcpy(found, file);
  return input_check_file(found, found, e);
}

enum { INPUT_NAME = 2 * FILE_NAME };

/* FILE:/path, for messages. */
static const char *input_name(const input *in, char name[INPUT_NAME]) {
  snprintf(name, INPUT_NAME, "%s:%s", in->file, in->path);
  return name;
}

static int input_open_file(input *in, error *e) {
  char name[INPUT_NAME];
  TRY(input_check_file(in->file, input_name(in, name), e));
  in->opened = H5Fopen(in->file, H5F_ACC_RDONLY, H5P_DEFAULT);
  const char *why = in->opened < 0 ? HDF5_WHY : "";
  if (in->opened >= 0) return 0;
  if (strstr(why, "signature not found")) return FAIL(e, FIELD_NOT_HDF5, name);
  if (strstr(why, "truncated file")) return FAIL(e, FIELD_TRUNCATED, name, why);
  return FAIL(e, FIELD_DAMAGED, name, why);
}

int input_damaged(const input *in, const char *why, error *e) {
  char name[INPUT_NAME];
  return FAIL(e, FIELD_DAMAGED, input_name(in, name), why);
}

int input_convert(const input *in, const char *why, error *e) {
  char name[INPUT_NAME];
  if (in->source) return input_damaged(in, why, e); /* the virtual dataset is to be converted */
  return FAIL(e, INPUT_STORAGE, input_name(in, name), why, in->file);
}

/* --- the content of a file -------------------------------------------------------------------------------------- */

enum { LIST_DATASETS = 5, LIST_OBJECTS = 1000, LIST_TEXT = 512 };

typedef struct input_listing {
  dataset_kind kind;
  int found, looked;
  char text[LIST_TEXT];
} input_listing;

/* Called for every object once, however many names it has. Ends the listing where there is more than anybody reads. */
static herr_t input_list(hid_t file, const char *name, const H5O_info_t *info, void *context) {
  input_listing *l = context;
  if (l->found > LIST_DATASETS || l->looked++ == LIST_OBJECTS) return 1;
  if (info->type != H5O_TYPE_DATASET) return 0;
  hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
  hid_t list = dataset < 0 ? -1 : H5Dget_create_plist(dataset);
  /* To know the shape of a virtual dataset HDF5 may open its sources, which nobody has checked. */
  hid_t space = list < 0 || H5Pget_layout(list) == H5D_VIRTUAL ? -1 : H5Dget_space(dataset);
  int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
  size_t used = strlen(l->text);
  const bool more = l->found < LIST_DATASETS, suits = rank >= l->kind.rank_min && rank <= l->kind.rank_max;
  if (suits && l->found == 0)
    snprintf(l->text, LIST_TEXT, "its %s datasets are /%s", l->kind.name, name);
  else if (suits)
    snprintf(l->text + used, LIST_TEXT - used, "%s%s", more ? ", /" : " and others", more ? name : "");
  l->found += suits;
  if (space >= 0) H5Sclose(space);
  if (list >= 0) H5Pclose(list);
  if (dataset >= 0) H5Dclose(dataset);
  return 0;
}

static int input_missing(const input *in, error *e) {
  input_listing l = {.kind = in->kind};
#if H5_VERSION_GE(1, 12, 0)
  H5Ovisit3(in->opened, H5_INDEX_NAME, H5_ITER_INC, input_list, &l, H5O_INFO_BASIC);
#else
  H5Ovisit2(in->opened, H5_INDEX_NAME, H5_ITER_INC, input_list, &l, H5O_INFO_BASIC);
#endif
  if (!l.found) snprintf(l.text, sizeof l.text, "it holds no %s dataset", in->kind.name);
  return FAIL(e, FIELD_NO_DATASET, in->file, in->path, l.text);
}

/* --- links ------------------------------------------------------------------------------------------------------ */

/* HDF5 calls this before it opens the file that a link leads to. It checks the file, since HDF5 would wait for a
 * pipe. */
static herr_t input_look_at_link(const char *from, const char *group, const char *file, const char *object,
                                 unsigned *flags, hid_t access, void *context) {
  input *in = context;
  char found[FILE_NAME];
  (void)group, (void)object, (void)flags, (void)access;
  in->linked = true;
  return input_find_file(from, getenv("HDF5_EXT_PREFIX"), file, found, &in->unlinked) ? -1 : 0;
}

/* Makes `in` the object that the link has led to. */
static int input_take_link(input *in, hid_t object, error *e) {
  const hid_t file = H5Iget_file_id(object);
  const ssize_t length = H5Fget_name(object, in->file, sizeof in->file),
                path = H5Iget_name(object, in->path, sizeof in->path);
  if (file < 0) return input_damaged(in, HDF5_WHY, e);
  H5Fclose(in->opened);
  in->opened = file;
  const bool fits = length > 0 && length < FILE_NAME && path > 0 && path < FILE_NAME;
  return fits ? 0 : input_damaged(in, "too long a link", e);
}

static int input_open_object(input *in, error *e) {
  const hid_t list = H5Pcreate(H5P_LINK_ACCESS);
  hid_t object = H5I_INVALID_HID;
  if (list >= 0 && H5Pset_elink_cb(list, input_look_at_link, in) >= 0)
    object = H5Oopen(in->opened, in->path, list);
  const char *why = object < 0 ? HDF5_WHY : "";
  const bool absent = strstr(why, "doesn't exist") || strstr(why, "not found") || strstr(why, "not a group");
  if (list >= 0) H5Pclose(list);
  in->dataset = object;
  if (in->unlinked.id) *e = in->unlinked;
  TRY(e->id);
  if (object < 0) return absent ? input_missing(in, e) : input_damaged(in, why, e);
  if (in->linked) TRY(input_take_link(in, object, e));
  const H5I_type_t type = H5Iget_type(object);
  if (type == H5I_DATASET) return 0;
  return FAIL(e, FIELD_NOT_DATASET, in->file, in->path, type == H5I_GROUP ? "group" : "named type");
}

/* --- crashes of HDF5 -------------------------------------------------------------------------------------------- */

/* HDF5 crashes on some damaged files. MPI's report of a crash may then wait for ever for memory that is in disorder. */
enum { CRASHES = 4, CRASH_STACK = 65536 };
static const int CRASH_SIGNALS[CRASHES] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
static struct {
  int inputs; /* open inputs, all of one thread of the process */
  bool other; /* this is another rank: rank 0 reports the crash and ends the job */
  char line[INPUT_NAME + 100];
  struct sigaction before[CRASHES];
  char stack[CRASH_STACK]; /* for the handler, since HDF5 may have used up the thread's */
  stack_t stack_before;
} input_crash;

static void input_on_crash(int number) {
  (void)number;
  if (input_crash.other) sleep(2);
  if (write(STDERR_FILENO, input_crash.line, strlen(input_crash.line)) < 0) _exit(EXIT_CODE_FILE);
  _exit(EXIT_CODE_FILE);
}

static void input_guard(input *in) {
  char name[INPUT_NAME];
  const struct sigaction action = {.sa_handler = input_on_crash, .sa_flags = SA_ONSTACK};
  const stack_t stack = {.ss_sp = input_crash.stack, .ss_size = CRASH_STACK};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return; /* a sanitizer reports more */
#endif
  in->guarded = true;
  if (input_crash.inputs++) return;
  input_crash.other = in->checked;
  snprintf(input_crash.line, sizeof input_crash.line,
           "stencil: error: %s: cannot read (the HDF5 library crashes: the file is damaged)\n",
           input_name(in, name));
  sigaltstack(&stack, &input_crash.stack_before);
  for (int i = 0; i < CRASHES; i++) sigaction(CRASH_SIGNALS[i], &action, &input_crash.before[i]);
}

static void input_unguard(input *in) {
  const bool last = in->guarded && --input_crash.inputs == 0;
  in->guarded = false;
  for (int i = 0; last && i < CRASHES; i++) sigaction(CRASH_SIGNALS[i], &input_crash.before[i], NULL);
  if (last) sigaltstack(&input_crash.stack_before, NULL);
}

int input_open_place(input *in, error *e) {
  input_guard(in);
  in->opened = in->dataset = H5I_INVALID_HID;
  TRY(input_open_file(in, e));
  TRY(input_open_object(in, e));
  return input_check_storage(in, e);
}

void input_close(input *in) {
  for (size_t i = 0; i < in->held_count; i++) H5Fclose(in->held[i]);
  free(in->held);
  in->held = NULL, in->held_count = 0;
  if (in->dataset >= 0) H5Oclose(in->dataset); /* the object may be no dataset */
  if (in->opened >= 0) H5Fclose(in->opened);
  in->dataset = in->opened = H5I_INVALID_HID;
  input_unguard(in);
}

/* --- datasets by name ------------------------------------------------------------------------------------------- */

static int input_split(input *in, error *e) {
  const char *name = in->name, *cut = config_dataset_cut(name);
  if (!cut || cut == name || !cut[2] || cut - name >= FILE_NAME || strlen(cut + 1) >= sizeof in->path)
    return FAIL(e, FIELD_NAME, name);
  snprintf(in->file, sizeof in->file, "%.*s", (int)(cut - name), name);
  strcpy(in->path, cut + 1);
  return 0;
}

static int input_read_shape(input *in, error *e) {
  hid_t space = H5Dget_space(in->dataset);
  in->rank = space < 0 ? -1 : H5Sget_simple_extent_dims(space, in->shape, NULL);
  H5S_class_t class = space < 0 ? H5S_NO_CLASS : H5Sget_simple_extent_type(space);
  if (in->rank < 0) FAIL(e, FIELD_DAMAGED, in->name, HDF5_WHY);
  if (space >= 0) H5Sclose(space);
  TRY(e->id);
  shape_print(in->rank, in->shape, in->found);
  if (in->rank == 0) snprintf(in->found, SHAPE_TEXT, "%s", class == H5S_SCALAR ? "a scalar" : "no values");
  return 0;
}

int input_check_shape(const input *in, const slab *s, error *e) {
  const hsize_t grid[3] = {(hsize_t)s->nz_global, (hsize_t)s->ny, (hsize_t)s->nx};
  const bool same = in->rank == 3 && memcmp(in->shape, grid, sizeof grid) == 0;
  return same ? 0 : FAIL(e, FIELD_SHAPE, in->name, s->nz_global, s->ny, s->nx, in->found);
}

int input_get(const input *in, const input_block *b, void *to, error *e) {
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* where HDF5 is for many threads, each has its own error printing */
  const hid_t disk = H5Dget_space(in->dataset), memory = H5Screate_simple(b->rank, b->count, NULL);
  const bool read =
      disk >= 0 && memory >= 0 &&
      (b->rank == 0 || H5Sselect_hyperslab(disk, H5S_SELECT_SET, b->start, NULL, b->count, NULL) >= 0) &&
      H5Dread(in->dataset, b->type, memory, disk, H5P_DEFAULT, to) >= 0;
  const uint64_t first = b->rank ? b->start[0] : 0, rows = b->rank ? b->count[0] : 1;
  if (!read) FAIL(e, INPUT_ROWS, in->name, first, first + rows - 1, HDF5_WHY);
  if (memory >= 0) H5Sclose(memory);
  if (disk >= 0) H5Sclose(disk);
  return e->id;
}

bool input_is_bytes(const input *in, uint64_t *at) {
  const hid_t dataset = in->dataset;
  const hid_t list = H5Dget_create_plist(dataset), type = H5Dget_type(dataset);
  const haddr_t place = H5Dget_offset(dataset);
  const bool plain = list >= 0 && type >= 0 && H5Pget_layout(list) == H5D_CONTIGUOUS &&
                     H5Pget_external_count(list) == 0 && H5Tequal(type, H5T_IEEE_F32LE) > 0 &&
                     H5Tequal(type, H5T_NATIVE_FLOAT) > 0 && place != HADDR_UNDEF;
  if (type >= 0) H5Tclose(type);
  if (list >= 0) H5Pclose(list);
  *at = plain ? (uint64_t)place : 0;
  return plain;
}

int input_open(input *in, const char *name, dataset_kind kind, bool checked, error *e) {
  error found = {0};
  *in = (input){
      .name = name, .kind = kind, .checked = checked, .opened = H5I_INVALID_HID, .dataset = H5I_INVALID_HID};
  TRY(input_split(in, e));
  input_open_place(in, &found);
  if (found.id && in->linked)
    return FAIL(e, FIELD_DAMAGED, name, found.text); /* `found` names what a link leads to */
  if (found.id) *e = found;
  return found.id ? found.id : input_read_shape(in, e);
}
