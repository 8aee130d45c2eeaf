/* Opening and closing an engine. */
#include "engine.h"
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "device/cgroup.h"
#include "base/error_mpi.h"
#include "base/thread.h"
#include "physics/absorb.h"
#include "physics/outside.h"
#include "step/tune.h"

/* Returns the processor time that the batch job or container may use, in cores. With more threads than that, the system
 * would stop all threads again and again. */
static double engine_cores_granted(void) {
  cgroup_limits group;
  cgroup_limits_read("", &group);
  return fmax(1, floor(group.cores));
}

typedef struct node_cores {
  int threads; /* of this rank: its cores divided among the ranks that share them, and its part of `granted` */
  bool own;    /* false: several ranks run on a core */
  int allowed; /* cores that some rank may use */
} node_cores;

/* Collective over `node`, the ranks of one node. */
static int engine_cores(MPI_Comm node, double granted, node_cores *found, error *e) {
  cpu_set_t mine, any;
  CPU_ZERO(&mine);
  CPU_ZERO(&any);
  sched_getaffinity(0, sizeof mine, &mine);
  int ranks, sharing = 0;
  MPI_TRY(e, MPI_Comm_size(node, &ranks));
  cpu_set_t *all;
  TRY(ALLOC(e, all, ranks, "the core masks of this node"));
  int rc = MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, node);
  for (int i = 0; i < ranks; i++) {
    sharing += CPU_EQUAL(&mine, &all[i]) != 0;
    CPU_OR(&any, &any, &all[i]);
  }
  free(all);
  MPI_TRY(e, rc);
  const double cores_of = fmin(sharing ? CPU_COUNT(&mine) / sharing : 1, granted / ranks);
  *found = (node_cores){
      .threads = cores_of > 1 ? (int)cores_of : 1, .own = cores_of >= 1, .allowed = CPU_COUNT(&any)};
  return 0;
}

/* If mpirun binds a rank to one core, all its threads run there, which is slow and easy to overlook. Cores that mpirun
 * itself may not use were withheld by taskset, a batch job or a container. */
static void engine_warn_of_idle_cores(device *dev, int allowed, double granted) {
  cpu_set_t parents;
  CPU_ZERO(&parents);
  if (dev->table->backend != BACKEND_HOST || !getenv("OMPI_COMM_WORLD_SIZE")) return;
  if (sched_getaffinity(getppid(), sizeof parents, &parents)) return;
  const int cores = (int)fmin(granted, CPU_COUNT(&parents));
  if (allowed >= cores) return;
  snprintf(dev->warning, sizeof dev->warning,
           "the ranks of this node may use %d of %d cores: mpirun binds them; --bind-to none lets them "
           "use all",
           allowed, cores);
}

/* Warns that ranks which share a GPU slow each other down. Collective over `node`; dev NULL: the device is not open. */
static int engine_warn_of_sharing(MPI_Comm node, device *dev, int ranks, error *e) {
  enum { BYTES = sizeof dev->gpu };
  static const unsigned char none[BYTES];
  unsigned char(*all)[BYTES];
  int gpus = 0, on_gpus = 0;
  TRY(ALLOC(e, all, ranks, "the list of GPUs"));
  const int rc = MPI_Allgather(dev ? dev->gpu : none, BYTES, MPI_BYTE, all, BYTES, MPI_BYTE, node);
  for (int i = 0, same; i < ranks; i++) {
    for (same = 0; memcmp(all[same], all[i], BYTES) != 0;) same++;
    gpus += same == i && memcmp(all[i], none, BYTES) != 0;
    on_gpus += memcmp(all[i], none, BYTES) != 0;
  }
  free(all);
  if (dev && on_gpus > gpus)
    snprintf(dev->warning, sizeof dev->warning, "%d ranks of this node share %d GPU%s", on_gpus, gpus,
             gpus == 1 ? "" : "s");
  return error_from_mpi(e, rc, "MPI_Allgather");
}

int engine_open_device(const engine *g, device **opened, error *e) {
  return device_open(g->config->backend, &g->options, opened, e);
}

static int engine_find_device(engine *g, error *e) {
  const double granted = engine_cores_granted();
  MPI_Comm node;
  node_cores cores = {.threads = 1};
  device_options *o = &g->options;
  *o = (device_options){.threads = g->config->threads, .profile = g->setup.profile};
  MPI_TRY(e, MPI_Comm_split_type(g->setup.beside, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
  MPI_TRY(e, MPI_Comm_rank(node, &o->local_rank));
  MPI_TRY(e, MPI_Comm_size(node, &o->local_ranks));
  TRY(engine_cores(node, granted, &cores, e));
  if (o->threads == 0) o->threads = cores.threads;
  o->own_cores = cores.own && o->threads <= cores.threads;
  engine_open_device(g, &g->dev, e);
  engine_warn_of_sharing(node, g->dev, o->local_ranks, e);
  MPI_TRY(e, MPI_Comm_free(&node));
  TRY(e->id);
  if (g->config->threads == 0) engine_warn_of_idle_cores(g->dev, cores.allowed, granted);
  return 0;
}

int engine_available(const engine_setup *setup, double *available, error *e) {
  engine g = {.setup = *setup, .config = setup->config};
  engine_find_device(&g, e);
  TRY(error_agree(e, setup->beside));
  *available = (double)g.dev->available;
  g.dev->table->close(g.dev);
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, available, 1, MPI_DOUBLE, MPI_MIN, setup->beside));
  return 0;
}

double engine_bytes(const config *c, const slab *s) {
  const absorb none = {.dev = NULL};
  field_set f;
  fields_plan(&f, c, s, &none); /* layers have memory of their own */
  return (double)(fields_floats(&f, s) * sizeof(float) + absorb_bytes(c, s));
}

int engine_slab(slab *s, const config *c, int rank, int ranks, error *e) {
  const slab_shape shape = {.nx = config_axis_of(c, 0).points,
                            .ny = config_axis_of(c, 1).points,
                            .nz = config_axis_of(c, 2).points,
                            .reflects = {config_reflects(c, FACE_Z_LO), config_reflects(c, FACE_Z_HI)},
                            .layers = {config_layer_width(c, FACE_Z_LO), config_layer_width(c, FACE_Z_HI)}};
  TRY(slab_init(s, &shape, rank, ranks, e));
  if (c->boundary[FACE_Z_LO] == BOUNDARY_PERIODIC) slab_wrap(s, false);
  return 0;
}

int engine_honours(const engine *g, const config *shot, error *e) {
  const config *c = g->config;
  const char *why = NULL;
  if (c->schedule != SCHEDULE_PERSISTENT) return 0;
  bool ipc = c->transport == TRANSPORT_AUTO || c->transport == TRANSPORT_IPC;
  if (config_has_terms(c)) why = "density and absorption need schedule = steps";
  if (physics_absorbs(c)) why = "absorbing faces need schedule = steps";
  if (config_has_sources(shot)) why = "sources need schedule = steps";
  if (g->ranks > 1 && !ipc) why = "more than one rank needs transport = ipc";
  if (strcmp(c->kernel, "auto") != 0) why = "it has a kernel of its own: kernel = auto";
  if (g->dev->table->backend != BACKEND_CUDA) why = "it needs a GPU";
  return why ? FAIL(e, SCHEDULE_IMPOSSIBLE, why) : 0;
}

/* Finds the kernel that the configuration names. Before anything is loaded, it refuses what the schedule cannot do. */
static int engine_find_kernel(engine *g, error *e) {
  const config *c = g->config;
  TRY(kernel_find(c->kernel, physics_form(c), g->dev->table->backend, &g->kernel, e));
  if (config_has_terms(c) && !(g->kernel->flags & KERNEL_TERMS))
    return FAIL(e, KERNEL_LACKS_TERMS, c->kernel);
  TRY(transport_check(transport_name(c->transport), g->dev, e));
  TRY(engine_honours(g, c, e));
  if (c->schedule == SCHEDULE_PERSISTENT) g->kernel = &persistent_kernel;
  g->boundary_kernel = g->kernel;
  return 0;
}

int engine_plan(engine *g, const engine_setup *setup, error *e) {
  const config *c = setup->config;
  const MPI_Comm comm = setup->files->compute;
  *g = (engine){
      .setup = *setup, .config = c, .files = setup->files, .log = setup->log, .comm = comm, .depth = 1};
  MPI_TRY(e, MPI_Comm_rank(comm, &g->rank));
  MPI_TRY(e, MPI_Comm_size(comm, &g->ranks));
  if (!engine_find_device(g, e)) engine_find_kernel(g, e);
  TRY(error_agree(e, comm));
  g->most = config_has_terms(c) || setup->together > 1
                ? 1
                : wavefront_most(c, g->kernel, g->ranks, physics_fields(c) > 0, g->log);
  TRY(engine_slab(&g->files_slab, c, g->rank, g->ranks, e));
  g->slab = g->files_slab;
  g->written = outside_written(c, &g->files_slab);
  if (setup->together > 1) slab_batch(&g->slab, setup->together);
  TRY(files_field_io(g->files, &g->io, &g->files_slab, c, e));
  TRY(physics_plan(&g->physics, c, g->files, &g->io, setup->dt_before, e));
  physics_args(&g->physics, c, &g->slab, &g->args);
  g->transforms = dispersion_tables_open();
  return 0;
}

/* The first own point of a field of the medium. */
static const float *engine_points(const engine *g, int i) {
  return g->medium[i] ? g->medium[i] + slab_offset(&g->slab, 0, 0, 0) : NULL;
}

/* Tells kernels where the media are. */
static void engine_point(engine *g) {
  for (int i = 0; i < EQUATION_MEDIA; i++) g->args.medium[i] = engine_points(g, i);
  g->args.terms.density = engine_points(g, MEDIUM_V);
  g->args.terms.sigma = engine_points(g, MEDIUM_SIGMA);
  g->args.terms.loss = engine_points(g, MEDIUM_LOSSES);
}

int engine_open(engine *g, error *e) {
  const size_t bytes = slab_floats(&g->slab) * sizeof(float);
  float ghosts[FACE_COUNT];
  physics_ghosts(g->config, ghosts);
  transfer_open(&g->transfer, g->dev, &g->slab, ghosts, e);
  g->transfer.alike = g->setup.together > 1;
  const absorb none = {.dev = NULL};
  field_set f;
  fields_plan(&f, g->config, &g->slab, &none);
  for (const field *a = f.list; a < f.list + f.count && !e->id; a++)
    if (a->role == FIELD_MEDIUM)
      g->dev->table->alloc(g->dev, (void **)&g->medium[a->number], bytes, MEMORY_DEVICE, e);
  engine_point(g);
  return error_agree(e, g->comm);
}

int engine_read_field(const engine *g, const char *dataset, enum quantity quantity, field_sink *sink,
                      void *context, error *e) {
  const request_own own = {.io = &g->io, .sink = sink, .context = context};
  return outside_read(g->files, g->config,
                      &(request){FILES_READ_FIELD, .path = dataset, .quantity = quantity, .own = own}, e);
}

int engine_write_field(const engine *g, const field_meta *field, const char *path, request_own own,
                       error *e) {
  return outside_write(g->files, g->config, &g->files_slab,
                       &(request){FILES_WRITE_FIELD, .path = path, .field = field, .own = own}, e);
}

typedef struct engine_medium {
  engine *g;
  int i; /* the number among the equation's media */
} engine_medium;

/* A field_sink: turns planes of a medium into what kernels read. */
static int engine_take_medium(void *context, int z, int planes, float *values, error *e) {
  const engine_medium *medium = context;
  engine *g = medium->g;
  const size_t points = (size_t)g->slab.nx * (size_t)g->files_slab.ny * (size_t)planes;
  for (size_t i = 0; i < points; i++)
    values[i] = physics_factor(&g->physics, g->config, medium->i, values[i], 1);
  return transfer_to_device(&g->transfer, z, planes, values, e);
}

/* A medium of the model, which several threads bring to the device. */
typedef struct engine_loading {
  engine *g;
  int i;      /* of the media */
  int ghosts; /* ghost planes on each side, which are loaded too */
  atomic_int next;
  pthread_mutex_t lock; /* guards the next members */
  error failed;
} engine_loading;

/* Brings rows of the model's plane z, as kernels read them, through `row`. */
static int engine_load_plane(engine_loading *w, int z, float *row, error *e) {
  engine *g = w->g;
  const model *m = &g->physics.model;
  const size_t points = (size_t)g->slab.nx * (size_t)g->files_slab.ny,
               first = (size_t)(z + w->ghosts) * points;
  const float *from = w->i == MEDIUM_V        ? m->V
                      : w->i == MEDIUM_SIGMA  ? m->sigma
                      : w->i == MEDIUM_LOSSES ? m->loss
                                              : m->velocity;
  for (size_t k = 0; k < points; k++) {
    row[k] = from[first + k];
    if (w->i == MEDIUM_LOSSES) row[k] = model_kappa(m, row[k]);
    if (w->i == 0)
      row[k] =
          physics_factor(&g->physics, g->config, 0, row[k], m->loss ? model_speed(m, m->loss[first + k]) : 1);
  }
  return transfer_to_device(&g->transfer, z, 1, row, e);
}

static void *engine_load_main(void *context) {
  engine_loading *w = context;
  const slab *s = &w->g->slab;
  error e = {0};
  float *row;
  ALLOC(&e, row, (size_t)s->nx * (size_t)w->g->files_slab.ny, "a plane of the medium");
  for (int z; !e.id && (z = atomic_fetch_add(&w->next, 1)) < s->nz + w->ghosts;)
    engine_load_plane(w, z, row, &e);
  free(row);
  pthread_mutex_lock(&w->lock);
  if (!w->failed.id) w->failed = e;
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

static int engine_load_model(engine *g, int i, error *e) {
  const int ghosts = i == MEDIUM_SIGMA ? RADIUS : 0;
  engine_loading w = {.g = g, .i = i, .ghosts = ghosts, .next = -ghosts, .lock = PTHREAD_MUTEX_INITIALIZER};
  thread_run(g->files->access->compressors, engine_load_main, &w);
  if (!e->id) *e = w.failed;
  return e->id;
}

/* For model_target.on_device. What kernels read is a power of the value, times a number. Values beside own points stay
 * as after the first load. */
static int engine_take_device(void *context, const float *values, bool *taken, error *e) {
  const engine_medium *medium = context;
  const engine *g = medium->g;
  const slab *s = &g->slab;
  const double dt = g->physics.dt, one = physics_factor_of(g->config, medium->i, dt, 1),
               two = physics_factor_of(g->config, medium->i, dt, 2);
  const spread_args a = {.from = values,
                         .to = g->medium[medium->i] + slab_offset(s, 0, 0, 0),
                         .scale = one,
                         .power = two == 4 * one ? 2 : 1,
                         .pitch = s->pitch,
                         .plane = s->plane,
                         .nx = s->nx,
                         .ny = s->ny,
                         .nz = s->nz};
  if (!g->reloads || g->dev->table->backend != BACKEND_CUDA || g->setup.together > 1 || g->ranks > 1)
    return 0;
  TRY(g->dev->table->apply(g->dev, STREAM_BOUNDARY, &operation_spread, &a, e));
  *taken = true;
  return g->dev->table->sync(g->dev, STREAM_BOUNDARY, e);
}

/* Reads the range again too, because engine_reload needs it. */
static int engine_load_medium(engine_medium *m, error *e) {
  engine *g = m->g;
  medium_range *range = &g->physics.medium[m->i];
  const uint64_t digest = range->digest;
  const enum medium which = EQUATIONS[g->config->equation].medium[m->i];
  const model_target to = {.next = engine_take_medium, .context = m, .on_device = engine_take_device};
  model_read(&to, range, g->config, which, g->files, &g->io, e);
  range->digest = digest;
  return error_agree(e, g->comm);
}

int engine_load(engine *g, error *e) {
  if (g->loaded) return 0;
  for (int i = 0; i < MEDIUM_FIELDS; i++) {
    engine_medium medium = {g, i};
    g->transfer.field = g->medium[i];
    if (!g->medium[i]) continue;
    if (g->physics.model.needed) {
      engine_load_model(g, i, e);
      TRY(error_agree(e, g->comm));
    } else
      TRY(engine_load_medium(&medium, e));
  }
  physics_loaded(&g->physics, g->config);
  g->loaded = true;
  return 0;
}

int engine_reload(engine *g, error *e) {
  g->loaded = false, g->reloads = true;
  TRY(engine_load(g, e));
  return physics_check(&g->physics, g->config, e);
}

int engine_choose(engine *g, stepper *s, wavefront *front, error *e) {
  if (g->chosen || s->persistent) return 0;
  TRY(tune_kernels(s, g->config->kernel, g->physics.form, g->comm, g->log, e));
  if (g->most > 1) {
    TRY(wavefront_choose(front, s, g->most, g->log, e));
    if (s->absorb) TRY(absorb_clear(s->absorb, e));
  }
  g->kernel = s->kernel, g->boundary_kernel = s->boundary_kernel;
  g->depth = s->front ? s->front->depth : 1;
  g->chosen = true;
  return 0;
}

void engine_close(engine *g) {
  error ignored = {0};
  if (!g->dev) return;
  transfer_close(&g->transfer);
  dispersion_tables_close(g->transforms);
  physics_close(&g->physics);
  for (int i = 0; i < MEDIUM_FIELDS; i++) g->dev->table->free(g->dev, g->medium[i], MEMORY_DEVICE, &ignored);
  g->dev->table->close(g->dev);
  g->dev = NULL;
}
