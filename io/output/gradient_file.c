#include "gradient_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/numbers.h"
#include "exact_sum.h"
#include "io/input/input.h"
#include "io/hdf5/io_internal.h"
#include "io/bytes/message.h"

/* --- besides the fields ------------------------------------------------------------------------------------------- */

static uint64_t gradient_describe_misfit(new_hdf5 *f, const gradient_meta *m) {
  const hsize_t shots = (hsize_t)m->shots;
  axis_write(f, &(axis){"shot", {NULL, "name of the shot"}, shots, .labels = m->names});
  return dataset_write(
      f,
      &(new_dataset){
          "misfit", H5T_NATIVE_DOUBLE, 1, {shots}, {"shot"}, .words = {"s", "misfit of the shot's traces"}});
}

static uint64_t gradient_describe_signals(new_hdf5 *f, const run_meta *run, const gradient_meta *m) {
  const hsize_t steps = (hsize_t)m->steps, signals = (hsize_t)m->signals;
  axis_write(f, &(axis){"time", {"s", "time"}, steps, .spacing = run->dt});
  axis_write(f, &(axis){"source", {NULL, "number of the source"}, signals, .spacing = 1, .whole = true});
  return dataset_write(
      f, &(new_dataset){"signals",
                        H5T_NATIVE_FLOAT,
                        2,
                        {steps, signals},
                        {"time", "source"},
                        .words = {"s", "gradient of the misfit with respect to the source's signal"}});
}

void gradient_describe(new_hdf5 *f, const run_meta *run, const gradient_meta *m, uint64_t at[2]) {
  if (m->misfit) at[0] = gradient_describe_misfit(f, m);
  if (m->signals) at[1] = gradient_describe_signals(f, run, m);
  if (m->verified) attribute_text(f, "/", "verified", m->verified);
}

int gradient_put(const row_file *f, const gradient_meta *m, const uint64_t at[2], error *e) {
  const size_t signals = (size_t)m->steps * (size_t)m->signals * sizeof *m->signal_gradient;
  if (m->misfit) TRY(row_file_put(f, at[0], m->misfit, (size_t)m->shots * sizeof *m->misfit, e));
  return m->signals ? row_file_put(f, at[1], m->signal_gradient, signals, e) : 0;
}

void gradient_carry(message *m, const gradient_meta **g) {
  gradient_meta *meta = message_array(m, g, sizeof *meta);
  const char **names = message_array(m, &meta->names, (size_t)meta->shots * sizeof *names);
  for (int i = 0; i < meta->shots; i++) message_text(m, &names[i]);
  if (meta->misfit) message_array(m, &meta->misfit, (size_t)meta->shots * sizeof *meta->misfit);
  message_array(m, &meta->signal_gradient,
                (size_t)meta->signals * (size_t)meta->steps * sizeof *meta->signal_gradient);
  message_text(m, &meta->verified);
}

/* --- the sum ------------------------------------------------------------------------------------------------------ */

/* The inputs of the sum: the files of shots. This program has written them, so their values are plain. */
typedef struct gradient_inputs {
  const char *path; /* of the survey */
  const char *const *names;
  int count, fields;
  const field_name *field[GRADIENT_FIELDS]; /* that the first shot has */
  uint64_t (*at)[GRADIENT_FIELDS];          /* count: where their values are; owned */
  slab slab;
  double *misfit; /* count; owned */
  float *signals; /* summed; owned; or NULL */
} gradient_inputs;

typedef struct gradient_input {
  gradient_inputs *all;
  int field;
} gradient_input;

enum { GRADIENT_NAME = FILE_NAME + 64 };
static void gradient_name_file(const gradient_inputs *a, int shot, char file[GRADIENT_NAME]) {
  snprintf(file, GRADIENT_NAME, "%s/%s" GRADIENT_ENDING, a->path, a->names[shot]);
}

static int gradient_open(const gradient_inputs *a, int shot, const char *name, input *in, error *e) {
  char file[GRADIENT_NAME], dataset[GRADIENT_NAME + 32];
  gradient_name_file(a, shot, file);
  snprintf(dataset, sizeof dataset, "%s:/%s", file, name);
  input_open(in, dataset, (dataset_kind){1, 3, "1D to 3D"}, false, e);
  in->name = in->file; /* `dataset` ends with this function */
  return e->id;
}

enum {
  ADDED_TOGETHER = 8,      /* shots */
  ADDED_POINTS = 1024,     /* points whose sums stay in a cache meanwhile */
  ADDED_BYTES = 128 << 10, /* bytes of each shot that a thread adds, but at least a plane */
  ADDED_ROOM = 256 << 20   /* bytes of memory that all threads may take */
};

/* Reads points of a shot from `first` on. Any thread may call it. */
static int gradient_read_shot(const gradient_input *f, int shot, size_t first, size_t points, float *values,
                              error *e) {
  char name[GRADIENT_NAME];
  gradient_name_file(f->all, shot, name);
  const row_file file = {.name = name, .fd = open(name, O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return FAIL(e, FIELD_FILE, name, strerror(errno));
  row_file_get(&file, f->all->at[shot][f->field] + first * sizeof *values, values, points * sizeof *values,
               e);
  close(file.fd);
  return e->id;
}

static void gradient_add(exact_sum *sums, const float *values, size_t points, int shots) {
  for (size_t first = 0; first < points; first += ADDED_POINTS)
    for (int k = 0; k < shots; k++)
      for (size_t i = first; i < points && i < first + ADDED_POINTS; i++)
        exact_add(&sums[i], values[(size_t)k * points + i]);
}

/* A field_source. */
static int gradient_add_planes(void *context, int z, int planes, float *values, error *e) {
  const gradient_input *f = context;
  const slab *s = &f->all->slab;
  const size_t nx = (size_t)s->nx, plane = nx * (size_t)s->ny, points = (size_t)planes * plane;
  exact_sum *sums;
  float *read;
  ALLOC(e, sums, points, "the sum of gradients");
  ALLOC(e, read, ADDED_TOGETHER * points, "the sum of gradients");
  for (int shot = 0, more; shot < f->all->count && !e->id; shot += more) {
    more = smaller(ADDED_TOGETHER, f->all->count - shot);
    for (int k = 0; k < more && !e->id; k++)
      gradient_read_shot(f, shot + k, (size_t)z * plane, points, read + (size_t)k * points, e);
    if (!e->id) gradient_add(sums, read, points, more);
  }
  for (size_t i = 0; i < points && !e->id; i++)
    if (!isfinite(values[i] = exact_value(&sums[i])))
      FAIL(e, GRADIENT_NONFINITE, f->all->field[f->field]->name, isnan(values[i]) ? "NaN" : "Inf",
           z + (int)(i / plane), (int)(i % plane / nx), (int)(i % nx));
  free(sums);
  free(read);
  return e->id;
}

/* Does the file of the first shot have this dataset? */
static bool gradient_has(const gradient_inputs *a, const char *name) {
  error none = {0};
  input in;
  const bool has = gradient_open(a, 0, name, &in, &none) == 0;
  input_close(&in);
  return has;
}

/* Finds where the values of a field are in the file of a shot. */
static int gradient_find_field(gradient_inputs *a, int shot, int k, error *e) {
  input in;
  if (!gradient_open(a, shot, a->field[k]->name, &in, e) && !input_check_shape(&in, &a->slab, e) &&
      (in.linked || !input_is_bytes(&in, &a->at[shot][k])))
    input_damaged(&in, "its values are not contiguous float32, as they were written", e);
  input_close(&in);
  return e->id;
}

/* Finds the fields of a shot, and reads its misfit, if it is to have one. HDF5 has the file open meanwhile. */
static int gradient_look(gradient_inputs *a, int shot, bool misfit, error *e) {
  const input_block one = {H5T_NATIVE_DOUBLE, 1, {0}, {1}};
  input in;
  if (!gradient_open(a, shot, misfit ? "misfit" : a->field[0]->name, &in, e) && misfit)
    input_get(&in, &one, &a->misfit[shot], e);
  for (int k = 0; k < a->fields && !e->id; k++) gradient_find_field(a, shot, k, e);
  input_close(&in);
  return e->id;
}

/* Reads the gradients of a shot's signals, steps x sources; 0 sources where the shape is not the first shot's. */
static int gradient_read_signals(const gradient_inputs *a, int shot, hsize_t shape[2], float **values,
                                 error *e) {
  input in;
  if (!gradient_open(a, shot, "signals", &in, e)) {
    const hsize_t *found = in.shape;
    if (!*values) shape[0] = found[0], shape[1] = in.rank == 2 ? found[1] : 0;
    if (!*values) ALLOC(e, *values, shape[0] * shape[1], "the sum of gradients");
    if (in.rank != 2 || found[0] != shape[0] || found[1] != shape[1]) shape[1] = 0;
    const input_block b = {H5T_NATIVE_FLOAT, 2, .count = {shape[0], shape[1]}};
    if (shape[1] && !e->id) input_get(&in, &b, *values, e);
  }
  input_close(&in);
  return e->id;
}

/* Sums the gradients with respect to signals that the shots share: source 1 of each has one, and so on. */
static int gradient_sum_signals(gradient_inputs *a, gradient_meta *sum, error *e) {
  hsize_t shape[2] = {0};
  exact_sum *sums = NULL;
  if (!gradient_has(a, "signals")) return 0;
  for (int i = 0; i < a->count && !e->id && (i == 0 || shape[1]); i++) {
    gradient_read_signals(a, i, shape, &a->signals, e);
    if (!sums && !e->id) ALLOC(e, sums, shape[0] * shape[1], "the sum of gradients");
    if (!e->id) gradient_add(sums, a->signals, (size_t)(shape[0] * shape[1]), 1);
  }
  for (size_t i = 0; i < shape[0] * shape[1] && !e->id; i++)
    if (!isfinite(a->signals[i] = exact_value(&sums[i])))
      FAIL(e, GRADIENT_SIGNALS, isnan(a->signals[i]) ? "NaN" : "Inf", (int64_t)(i / shape[1]),
           (int)(i % shape[1]) + 1);
  sum->steps = (int64_t)shape[0], sum->signals = (int)shape[1], sum->signal_gradient = a->signals;
  free(sums);
  return e->id;
}

/* Finds the fields that the first shot has. */
static void gradient_find_fields(gradient_inputs *a, gradient_input *from, field_planes *parts,
                                 field_name *names) {
  for (int i = 0; i < GRADIENT_FIELDS; i++) {
    const int k = a->fields;
    if (!gradient_has(a, GRADIENT_NAMES[i].name)) continue;
    names[k] = GRADIENT_NAMES[i];
    from[k] = (gradient_input){a, k};
    parts[k] = (field_planes){gradient_add_planes, &from[k]};
    a->field[a->fields++] = &GRADIENT_NAMES[i];
  }
}

/* Limits the threads by the memory for sums and values of a block of planes. */
static void gradient_limit_threads(const gradient_inputs *a, io_access *access) {
  const size_t plane = (size_t)a->slab.ny * (size_t)a->slab.nx, block = ADDED_BYTES / sizeof(float),
               bytes_a_thread =
                   (plane > block ? plane : block) * (sizeof(exact_sum) + ADDED_TOGETHER * sizeof(float));
  access->block_bytes = ADDED_BYTES;
  access->threads = larger(1, smaller(access->compressors, (int)(ADDED_ROOM / bytes_a_thread)));
}

static int gradient_write_sum(gradient_inputs *a, const field_meta *meta, error *e) {
  const bool misfit = gradient_has(a, "misfit");
  gradient_input from[GRADIENT_FIELDS];
  field_planes parts[GRADIENT_FIELDS];
  field_name names[GRADIENT_FIELDS];
  gradient_meta sum = *meta->gradient;
  field_meta of = *meta;
  io_access access;
  field_io io;
  TRY(io_access_open(&access, MPI_COMM_SELF, true, e));
  gradient_limit_threads(a, &access);
  field_io_init(&io, &access, &a->slab, IO_COLLECTIVE);
  io.path = a->path;
  gradient_find_fields(a, from, parts, names);
  if (!misfit) sum.misfit = NULL;
  for (int i = 0; i < a->count && (misfit || a->fields); i++) TRY(gradient_look(a, i, misfit, e));
  TRY(gradient_sum_signals(a, &sum, e));
  of.ending = GRADIENT_ENDING, of.names = names, of.gradient = &sum;
  of.fields = a->fields;
  return field_write(&io, &of, parts, NULL, e);
}

int gradient_sum(const char *path, const config *c, const field_meta *meta, error *e) {
  gradient_inputs a = {.path = path, .names = meta->gradient->names, .count = meta->gradient->shots};
  gradient_meta sum = *meta->gradient;
  field_meta of = *meta;
  const slab_shape shape = {.nx = c->nx, .ny = c->ny, .nz = c->nz};
  TRY(slab_init(&a.slab, &shape, 0, 1, e));
  ALLOC(e, a.misfit, a.count, "the misfits");
  ALLOC(e, a.at, a.count, "the places of gradients");
  sum.misfit = a.misfit, of.gradient = &sum;
  if (!e->id) gradient_write_sum(&a, &of, e);
  free(a.misfit);
  free(a.at);
  free(a.signals);
  return e->id;
}
