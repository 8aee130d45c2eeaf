#include "gradient_file.h"
#include <stdlib.h>
#include <string.h>
#include "exact_sum.h"
#include "input.h"
#include "io_internal.h"
#include "message.h"
#include "table.h"

const field_name GRADIENT_NAMES[GRADIENT_FIELDS] = {
    [GRADIENT_VELOCITY] = {"velocity", "s/m", "gradient of the misfit with respect to the velocity"},
    [GRADIENT_INITIAL] = {"initial", "1", "gradient of the misfit with respect to the initial field"},
    [GRADIENT_IMAGE] = {"image", "1", "sum over the steps of the field times the adjoint field"},
    [GRADIENT_ILLUMINATION] = {"illumination", "1", "sum over the steps of the field squared"}};

/* --- besides the fields ------------------------------------------------------------------------------------------- */

static void gradient_put_misfit(new_hdf5 *f, const gradient_meta *m) {
  const axis shots = {
      .name = "shot", .words = {NULL, "name of the shot"}, .points = (hsize_t)m->shots, .labels = m->names};
  axis_create(f, &shots);
  hid_t misfit = dataset_create(f, "misfit", H5T_IEEE_F64LE, 1, &shots.points, 0);
  dataset_put(f, misfit, H5T_NATIVE_DOUBLE, m->misfit);
  axes_attach(f, misfit, 1, &shots.name);
  dataset_describe(f, misfit, (dataset_words){"s", "misfit of the shot's traces"});
  dataset_close(f, misfit);
}

static void gradient_put_signals(new_hdf5 *f, const run_meta *run, const gradient_meta *m) {
  const hsize_t shape[2] = {(hsize_t)m->steps, (hsize_t)m->signals};
  const axis axes[2] = {{.name = "time", .words = {"s", "time"}, .points = shape[0], .spacing = run->dt},
                        {.name = "source",
                         .words = {NULL, "number of the source"},
                         .points = shape[1],
                         .spacing = 1,
                         .whole = true}};
  for (int i = 0; i < 2; i++) axis_create(f, &axes[i]);
  hid_t signals = dataset_create(f, "signals", H5T_IEEE_F32LE, 2, shape, 0);
  dataset_put(f, signals, H5T_NATIVE_FLOAT, m->signal_gradient);
  axes_attach(f, signals, 2, (const char *const[]){"time", "source"});
  dataset_describe(f, signals,
                   (dataset_words){"1", "gradient of the misfit with respect to the source's signal"});
  dataset_close(f, signals);
}

void gradient_describe(new_hdf5 *f, const run_meta *run, const gradient_meta *m) {
  if (m->misfit) gradient_put_misfit(f, m);
  if (m->signals) gradient_put_signals(f, run, m);
  if (m->verified) attribute_text(f, f->file, "verified", m->verified);
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

/* What the sum is made from; the fields are /velocity and so on of FILE. */
typedef struct gradient_addends {
  const char *path; /* of the survey */
  const char *const *names;
  int count;
  slab slab;
  double *misfit;  /* count; owned */
  exact_sum *sums; /* of some planes; owned */
  size_t room;
  float *values;  /* of as many points; owned */
  float *signals; /* summed; owned; or NULL */
} gradient_addends;

typedef struct gradient_addend {
  gradient_addends *all;
  const field_name *field;
} gradient_addend;

static int gradient_open(const gradient_addends *a, int shot, const char *name, input *in, error *e) {
  char dataset[FILE_NAME + 64];
  snprintf(dataset, sizeof dataset, "%s/%s" GRADIENT_ENDING ":/%s", a->path, a->names[shot], name);
  return dataset_open(dataset, (dataset_kind){1, 3, "1D to 3D"}, false, in, e);
}

/* Reads a block of an open dataset. */
static int gradient_read_block(gradient_addends *a, const input *in, int rank, const hsize_t *at,
                               const hsize_t *block, error *e) {
  const hid_t disk = H5Dget_space(in->dataset), memory = H5Screate_simple(rank, block, NULL);
  if (!(disk >= 0 && memory >= 0 && H5Sselect_hyperslab(disk, H5S_SELECT_SET, at, NULL, block, NULL) >= 0 &&
        H5Dread(in->dataset, H5T_NATIVE_FLOAT, memory, disk, H5P_DEFAULT, a->values) >= 0))
    FAIL(e, FIELD_DAMAGED, in->file, HDF5_WHY);
  if (memory >= 0) H5Sclose(memory);
  if (disk >= 0) H5Sclose(disk);
  return e->id;
}

static int gradient_read_planes(gradient_addends *a, int shot, const char *name, const hsize_t at[3],
                                const hsize_t block[3], error *e) {
  input in;
  hsize_t shape[H5S_MAX_RANK];
  char text[SHAPE_TEXT];
  int rank = 0;
  if (gradient_open(a, shot, name, &in, e)) return e->id;
  if (!dataset_shape(in.file, in.dataset, shape, &rank, text, e) &&
      (rank != 3 || shape[0] != (hsize_t)a->slab.nz || shape[1] != block[1] || shape[2] != block[2]))
    FAIL(e, FIELD_SHAPE, in.file, a->slab.nz, a->slab.ny, a->slab.nx, text);
  if (!e->id) gradient_read_block(a, &in, 3, at, block, e);
  input_close(&in);
  return e->id;
}

static int gradient_make_room(gradient_addends *a, size_t points, error *e) {
  if (points > a->room) {
    free(a->sums), free(a->values);
    a->values = NULL;
    TRY(ALLOC(e, a->sums, points, "the sum of gradients"));
    TRY(ALLOC(e, a->values, points, "the sum of gradients"));
    a->room = points;
  }
  memset(a->sums, 0, points * sizeof *a->sums);
  return 0;
}

/* A field_source. */
static int gradient_add_planes(void *context, int z, int planes, float *values, error *e) {
  const gradient_addend *f = context;
  gradient_addends *a = f->all;
  const hsize_t at[3] = {(hsize_t)z}, block[3] = {(hsize_t)planes, (hsize_t)a->slab.ny, (hsize_t)a->slab.nx};
  const size_t points = (size_t)(block[0] * block[1] * block[2]);
  TRY(gradient_make_room(a, points, e));
  for (int shot = 0; shot < a->count; shot++) {
    TRY(gradient_read_planes(a, shot, f->field->name, at, block, e));
    for (size_t i = 0; i < points; i++) exact_add(&a->sums[i], a->values[i]);
  }
  for (size_t i = 0; i < points; i++) values[i] = exact_value(&a->sums[i]);
  return 0;
}

/* Is there a dataset in the file of the first shot? */
static bool gradient_has(const gradient_addends *a, const char *name) {
  error none = {0};
  input in;
  const bool has = gradient_open(a, 0, name, &in, &none) == 0;
  input_close(&in);
  return has;
}

static int gradient_read_misfit(const gradient_addends *a, int shot, error *e) {
  char name[FILE_NAME + 64];
  table t;
  snprintf(name, sizeof name, "%s/%s" GRADIENT_ENDING ":/misfit", a->path, a->names[shot]);
  TRY(table_read(MPI_COMM_SELF, name, (table_form){.flat = true, .columns = 1}, &t, e));
  a->misfit[shot] = t.values[0];
  table_free(&t);
  return 0;
}

/* Adds the gradients of a shot's signals. shape: steps x sources, of the first shot; of 0 sources where another has not as many. */
static int gradient_add_signals(gradient_addends *a, int shot, hsize_t shape[2], error *e) {
  input in;
  hsize_t found[H5S_MAX_RANK];
  char text[SHAPE_TEXT];
  int rank = 0;
  TRY(gradient_open(a, shot, "signals", &in, e));
  if (!dataset_shape(in.file, in.dataset, found, &rank, text, e) && rank == 2) {
    if (shot == 0) shape[0] = found[0], shape[1] = found[1];
    const size_t points = (size_t)(shape[0] * shape[1]);
    if (found[0] != shape[0] || found[1] != shape[1]) shape[1] = 0;
    if (shape[1] && (shot || !gradient_make_room(a, points, e)) &&
        !gradient_read_block(a, &in, 2, (const hsize_t[2]){0}, shape, e))
      for (size_t i = 0; i < points; i++) exact_add(&a->sums[i], a->values[i]);
  }
  input_close(&in);
  return e->id;
}

/* With respect to signals that the shots share: source 1 of each has one, and so on. */
static int gradient_sum_signals(gradient_addends *a, gradient_meta *sum, error *e) {
  hsize_t shape[2] = {0};
  if (!gradient_has(a, "signals")) return 0;
  for (int i = 0; i < a->count && (i == 0 || shape[1]); i++) TRY(gradient_add_signals(a, i, shape, e));
  const size_t points = (size_t)(shape[0] * shape[1]);
  if (!points) return 0;
  if (!(a->signals = malloc(points * sizeof *a->signals)))
    return FAIL(e, OUT_OF_MEMORY, points * sizeof *a->signals, "the sum of gradients");
  for (size_t i = 0; i < points; i++) a->signals[i] = exact_value(&a->sums[i]);
  sum->steps = (int64_t)shape[0], sum->signals = (int)shape[1], sum->signal_gradient = a->signals;
  return 0;
}

/* Fields that the first shot has. */
static int gradient_find_fields(gradient_addends *a, gradient_addend *from, field_planes *parts,
                                field_name *names) {
  int count = 0;
  for (int i = 0; i < GRADIENT_FIELDS; i++) {
    if (!gradient_has(a, GRADIENT_NAMES[i].name)) continue;
    names[count] = GRADIENT_NAMES[i];
    from[count] = (gradient_addend){a, &GRADIENT_NAMES[i]};
    parts[count] = (field_planes){gradient_add_planes, &from[count]};
    count++;
  }
  return count;
}

static int gradient_write_sum(gradient_addends *a, const field_meta *meta, error *e) {
  gradient_addend from[GRADIENT_FIELDS];
  field_planes parts[GRADIENT_FIELDS];
  field_name names[GRADIENT_FIELDS];
  gradient_meta sum = *meta->gradient;
  field_meta of = *meta;
  io_way way;
  field_io io;
  TRY(io_way_open(&way, MPI_COMM_SELF, true, e));
  way.threads = 1; /* they read through HDF5 */
  field_io_init(&io, &way, &a->slab, IO_COLLECTIVE);
  io.path = a->path;
  if (gradient_has(a, "misfit"))
    for (int i = 0; i < a->count; i++) TRY(gradient_read_misfit(a, i, e));
  else
    sum.misfit = NULL;
  TRY(gradient_sum_signals(a, &sum, e));
  of.ending = GRADIENT_ENDING, of.names = names, of.gradient = &sum;
  of.fields = gradient_find_fields(a, from, parts, names);
  return field_write(&io, &of, NULL, parts, e);
}

int gradient_sum(const char *path, const config *c, const field_meta *meta, error *e) {
  gradient_addends a = {.path = path, .names = meta->gradient->names, .count = meta->gradient->shots};
  gradient_meta sum = *meta->gradient;
  field_meta of = *meta;
  const slab_shape shape = {.nx = c->nx, .ny = c->ny, .nz = c->nz};
  TRY(slab_init(&a.slab, &shape, 0, 1, e));
  TRY(ALLOC(e, a.misfit, a.count, "the misfits"));
  sum.misfit = a.misfit, of.gradient = &sum;
  gradient_write_sum(&a, &of, e);
  free(a.misfit);
  free(a.sums);
  free(a.values);
  free(a.signals);
  return e->id;
}
