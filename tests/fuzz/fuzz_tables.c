/* Any finite numbers as the table of a wavelet are refused in one line or give samples that swing beyond the values by no
 * more than interpolation lets them; any positions of receivers are placed inside the grid or refused in one line. The bytes: 8 doubles and
 * a number of columns (1, 2: a wavelet; 3: positions), then the values. Tables come from the bytes, not from HDF5. */
#include <math.h>
#include <mpi.h>
#include "fuzz.h"
#include "acquisition/receiver.h"
#include "acquisition/wavelet.h"

static const table *given; /* what reading a table returns */

static int give_table(const files *f, const request *r, error *e) {
  const size_t bytes = (size_t)given->rows * (size_t)given->columns * sizeof *given->values;
  table *t = r->own.table;
  (void)f, (void)e;
  *t = *given;
  t->values = malloc(bytes);
  demand(t->values != NULL, "out of memory", "for a table");
  memcpy(t->values, given->values, bytes);
  return 0;
}

static const files_kind files_of_bytes = {give_table, NULL, NULL};

static void check_wavelet(const double numbers[8]) {
  const files all = {.kind = &files_of_bytes, .compute = MPI_COMM_SELF, .comm = MPI_COMM_SELF};
  wavelet_table t;
  error e = {0};
  const int id = wavelet_read(&all, "file.h5:/w", &t, &e);
  demand_answer(id, &e, EXIT_CODE_FILE);
  if (id) {
    table_free(&t.rows);
    return;
  }
  const int columns = given->columns;
  double least = 0, greatest = 0;
  for (int64_t i = 0; i < given->rows; i++) {
    least = fmin(least, given->values[i * columns + columns - 1]);
    greatest = fmax(greatest, given->values[i * columns + columns - 1]);
  }
  const double swing = columns == 2 ? 4 * (greatest - least) : 0;
  for (int64_t step = 0; step < given->rows + 2; step++) {
    const wavelet_place at = wavelet_find(&t, fabs(numbers[0]), step);
    const float value = (float)wavelet_sum(&t, &at, 0, 0);
    demand(value >= nextafterf((float)(least - swing), -INFINITY) &&
               value <= nextafterf((float)(greatest + swing), INFINITY),
           "sample", "far outside of the wavelet's values");
  }
  wavelet_use use;
  const int column = 0;
  const wavelet_steps steps = {fmax(1e-30, fabs(numbers[1])), (int64_t)fmin(1e3, fabs(numbers[2])), 0};
  demand(wavelet_study_columns(&t, &column, 1, steps, &use, &e) == 0, "study", e.text);
  demand(use.highest >= 0 && use.start >= 0 && use.stop >= 0 && use.begin >= 0 && use.end <= steps.count,
         "study", "nonsense");
  table_free(&t.rows);
}

static void check_receivers(const double numbers[8]) {
  const files all = {.kind = &files_of_bytes, .compute = MPI_COMM_SELF, .comm = MPI_COMM_SELF};
  config c = {.nx = 6,
              .ny = 7,
              .nz = 9,
              .receivers = RECEIVERS_FILE,
              .receivers_file = "file.h5:/p",
              .receivers_every = 1,
              .dx = numbers[0],
              .dy = numbers[1],
              .dz = numbers[2],
              .origin = {numbers[3], numbers[4], numbers[5]}};
  const slab_shape shape = {.nx = c.nx, .ny = c.ny, .nz = c.nz};
  slab s;
  error e = {0};
  if (!(c.dx > 0 && c.dy > 0 && c.dz > 0)) return; /* as configurations demand */
  demand(slab_init(&s, &shape, 0, 1, &e) == 0, "slab", e.text);
  const problem on = {.slab = &s, .config = &c, .files = &all};
  receivers r = {0};
  const int id = receivers_plan(&r, &on, &(exact_time){0}, (receivers_span){.pass = 1, .last = 10}, &e);
  demand_answer(id, &e, EXIT_CODE_FILE);
  demand(id || (r.count == given->rows && r.local == r.count), "receivers", "lost");
  for (int i = 0; i < r.local && !id; i++) {
    const point_weights *o = &r.own[i];
    double sum = 0;
    for (int k = 0; k < o->nz * o->ny * o->nx; k++)
      sum += (double)o->wz[k / (o->ny * o->nx)] * (double)o->wy[k / o->nx % o->ny] * (double)o->wx[k % o->nx];
    demand(o->z >= 0 && o->z + o->nz <= s.nz && o->y >= 0 && o->y + o->ny <= s.ny && o->x >= 0 &&
               o->x + o->nx <= s.nx,
           "receiver", "outside of the grid");
    demand(fabs(sum - 1) < 1e-5, "receiver", "weights of another sum");
  }
  receivers_close(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input in = {data, size};
  double numbers[8];
  uint8_t columns;
  input_take(&in, numbers, sizeof numbers);
  input_take(&in, &columns, 1);
  table t = {.columns = columns % 3 + 1};
  t.rows = (int64_t)(in.left / sizeof(double)) / t.columns;
  const size_t count = (size_t)t.rows * (size_t)t.columns;
  if (!(t.values = malloc(count * sizeof(double) + 1))) abort();
  input_take(&in, t.values, count * sizeof(double));
  bool finite = t.rows > 0; /* as tables are */
  for (int i = 0; i < 8; i++) finite = finite && isfinite(numbers[i]);
  for (size_t i = 0; i < count; i++) finite = finite && isfinite(t.values[i]);
  given = &t;
  if (finite && t.columns < 3) check_wavelet(numbers);
  if (finite && t.columns == 3) check_receivers(numbers);
  free(t.values);
  return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  setenv("OMPI_MCA_opal_signal", "", 1); /* crashes are libFuzzer's to report */
  return MPI_Init(argc, argv);
}
