/* Opening and closing a simulation. */
#include "simulation.h"
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "device/cgroup.h"
#include "base/error_mpi.h"
#include "save/restart.h"

/* The processor time that the batch job or the container may use, in cores. With more threads the system would stop all
 * of them again and again. */
static double setup_cores_granted(void) {
  cgroup_limits group;
  cgroup_limits_read("", &group);
  return fmax(1, floor(group.cores));
}

/* What the ranks of a node may compute with. */
typedef struct node_cores {
  int threads; /* of this rank: its cores, divided among the ranks that share them, and its share of those `granted` */
  bool own;    /* it has as many; else ranks take turns on a core */
  int allowed; /* cores that some rank may use */
} node_cores;

/* Collective over `node`, the ranks of one node. */
static int setup_cores(MPI_Comm node, double granted, node_cores *found, error *e) {
  cpu_set_t mine, any;
  CPU_ZERO(&mine);
  CPU_ZERO(&any);
  sched_getaffinity(0, sizeof mine, &mine);
  int ranks, sharing = 0;
  MPI_TRY(e, MPI_Comm_size(node, &ranks));
  cpu_set_t *all = malloc((size_t)ranks * sizeof *all);
  if (!all) return FAIL(e, OUT_OF_MEMORY, (size_t)ranks * sizeof *all, "the core masks of this node");
  int rc = MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, node);
  for (int i = 0; i < ranks; i++) {
    sharing += CPU_EQUAL(&mine, &all[i]) != 0;
    CPU_OR(&any, &any, &all[i]);
  }
  free(all);
  MPI_TRY(e, rc);
  const double share = fmin(sharing ? CPU_COUNT(&mine) / sharing : 1, granted / ranks);
  *found = (node_cores){.threads = share > 1 ? (int)share : 1, .own = share >= 1, .allowed = CPU_COUNT(&any)};
  return 0;
}

/* mpirun by default binds a rank, and its threads, to one core: that is slow, and easy to overlook. Cores that mpirun
 * itself may not use are another's choice: of taskset, a batch job or a container. */
static void setup_warn_of_idle_cores(device *dev, int allowed, double granted) {
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

static int setup_device(simulation *s, bool profile, error *e) {
  const double granted = setup_cores_granted();
  MPI_Comm node;
  node_cores cores = {.threads = 1};
  device_options options = {.threads = s->config->threads, .profile = profile};
  MPI_TRY(e, MPI_Comm_split_type(s->comm, MPI_COMM_TYPE_SHARED, s->rank, MPI_INFO_NULL, &node));
  MPI_TRY(e, MPI_Comm_rank(node, &options.local_rank));
  MPI_TRY(e, MPI_Comm_size(node, &options.local_ranks));
  TRY(setup_cores(node, granted, &cores, e));
  if (options.threads == 0) options.threads = cores.threads;
  options.own_cores = cores.own && options.threads <= cores.threads;
  MPI_TRY(e, MPI_Comm_free(&node));
  s->saves.local_ranks = options.local_ranks;
  s->threads = options.threads;
  TRY(device_open(s->config->backend, &options, &s->dev, e));
  s->saves.dev = s->dev;
  if (s->config->threads == 0) setup_warn_of_idle_cores(s->dev, cores.allowed, granted);
  return 0;
}

static int setup_config_text(simulation *s, error *e) {
  size_t length = config_print(s->config, NULL, 0);
  s->saves.config_text = malloc(length + 1);
  if (!s->saves.config_text) return FAIL(e, OUT_OF_MEMORY, length + 1, "the text of the config");
  config_print(s->config, s->saves.config_text, length + 1);
  return 0;
}

/* Finds the kernel that the configuration names. `auto` measures later. */
static int setup_kernel(simulation *s, bool profile, error *e) {
  const enum equation form = physics_form(s->config);
  stepper *p = &s->stepper;
  enum backend backend = s->dev->table->backend;
  *p = (stepper){
      .dev = s->dev, .halo = &s->halo, .slab = &s->slab, .overlap = s->config->overlap, .profile = profile};
  TRY(kernel_find(s->config->kernel, form, backend, &p->kernel, e));
  p->boundary_kernel = p->kernel;
  return 0;
}

static int setup_slab(simulation *s, error *e) {
  const config *c = s->config;
  slab *z = &s->slab;
  const slab_shape shape = {.nx = c->nx,
                            .ny = c->ny,
                            .nz = c->nz,
                            .ghost = RADIUS,
                            .reflects = {config_reflects(c, FACE_Z_LO), config_reflects(c, FACE_Z_HI)},
                            .layers = {config_layer_width(c, FACE_Z_LO), config_layer_width(c, FACE_Z_HI)}};
  TRY(slab_init(z, &shape, s->rank, s->ranks, e));
  if (c->boundary[FACE_Z_LO] == BOUNDARY_PERIODIC) slab_wrap(z, false);
  return 0;
}

/* Refuses what the persistent schedule cannot do before anything is loaded. */
static int setup_schedule(simulation *s, error *e) {
  const config *c = s->config;
  const char *why = NULL;
  if (c->schedule != SCHEDULE_PERSISTENT) return 0;
  bool ipc = c->transport == TRANSPORT_AUTO || c->transport == TRANSPORT_IPC;
  if (physics_absorbs(c)) why = "absorbing faces need schedule = steps";
  if (c->source_count) why = "sources need schedule = steps";
  if (s->ranks > 1 && !ipc) why = "more than one rank needs transport = ipc";
  if (strcmp(c->kernel, "auto") != 0) why = "it has a kernel of its own: kernel = auto";
  if (s->dev->table->backend != BACKEND_CUDA) why = "it needs a GPU";
  if (why) return FAIL(e, SCHEDULE_IMPOSSIBLE, why);
  s->stepper.kernel = &persistent_kernel;
  return 0;
}

static int setup_open_schedule(simulation *s, error *e) {
  if (s->config->schedule != SCHEDULE_PERSISTENT) return 0;
  error reason = {0};
  float *const fields[2] = {stepper_field(&s->stepper, 0), stepper_field(&s->stepper, 1)};
  persistent_open(&s->persistent, &s->halo, &s->stepper.args, s->physics.form, fields, &reason);
  if (reason.id == ERROR_TRANSPORT_REFUSED) return FAIL(e, SCHEDULE_IMPOSSIBLE, reason.text);
  if (reason.id && !e->id) *e = reason;
  s->stepper.persistent = &s->persistent;
  return e->id;
}

/* What is saved of this run; the device follows when it is open. */
static save_queue setup_saving(simulation *s, const char *command) {
  return (save_queue){.config = s->config,
                      .files = s->files,
                      .from = s->from,
                      .command = command,
                      .log = s->log,
                      .comm = s->comm,
                      .rank = s->rank,
                      .slab = &s->slab,
                      .physics = &s->physics,
                      .io = &s->io,
                      .stepper = &s->stepper,
                      .transfer = &s->transfer,
                      .sources = &s->sources,
                      .receivers = &s->receivers,
                      .absorb = &s->absorb,
                      .checked_step = -1,
                      .written.checkpoint = -1};
}

problem simulation_problem(const simulation *s) {
  return (problem){.dev = s->dev, .slab = &s->slab, .config = s->config, .files = s->files};
}

/* Places sources and receivers. A checkpoint may be beyond the last step of this run. */
static int setup_places(simulation *s, error *e) {
  const problem on = simulation_problem(s);
  const int64_t last = s->physics.steps, from = s->from ? s->from->step : -1;
  const receivers_span span = {s->most, from + 1, from > last ? from : last};
  TRY(sources_plan(&s->sources, &on, (wavelet_steps){s->physics.dt, last}, e));
  s->stepper.receivers = s->config->receivers != RECEIVERS_NONE ? &s->receivers : NULL;
  return receivers_plan(&s->receivers, &on, span, e);
}

int simulation_plan(simulation *s, const job *j, const checkpoint *from, bool profile, error *e) {
  const config *c = j->config;
  const files *files = j->files;
  const MPI_Comm comm = files->compute;
  *s = (simulation){.config = c, .from = from, .log = j->log, .comm = comm, .files = files};
  double number;
  MPI_TRY(e, MPI_Comm_rank(comm, &s->rank));
  MPI_TRY(e, MPI_Comm_size(comm, &s->ranks));
  s->saves = setup_saving(s, j->command);
  if (!setup_device(s, profile, e) && !setup_kernel(s, profile, e) &&
      !transport_check(transport_name(c->transport), s->dev, e) && !setup_schedule(s, e))
    setup_config_text(s, e);
  TRY(error_agree(e, comm));
  s->most = wavefront_most(c, s->stepper.kernel, s->ranks, physics_medium(c, &number) != NULL, s->log);
  s->front.threads = s->threads;
  TRY(setup_slab(s, e));
  TRY(files_field_io(files, &s->io, &s->slab, c, e));
  TRY(physics_plan(&s->physics, c, files, &s->io, from ? from->dt : 0, e));
  physics_args(&s->physics, c, &s->slab, &s->stepper.args);
  TRY(setup_places(s, e));
  return from ? restart_match(&s->saves, from, e) : 0; /* before anything counts on its step and its dt */
}

static int setup_fields(simulation *s, error *e) {
  size_t bytes = slab_floats(&s->slab) * sizeof(float);
  for (int i = 0; i < 2; i++)
    TRY(s->dev->table->alloc(s->dev, (void **)&s->stepper.memory[i], bytes, MEMORY_DEVICE, e));
  double number;
  if (physics_medium(s->config, &number)) {
    TRY(s->dev->table->alloc(s->dev, (void **)&s->medium, bytes, MEMORY_DEVICE, e));
    s->stepper.args.medium = s->medium + slab_offset(&s->slab, 0, 0, 0);
  }
  TRY(stepper_open(&s->stepper, e));
  float ghosts[FACE_COUNT];
  physics_ghosts(s->config, ghosts);
  TRY(survey_open(&s->saves.survey, s->dev, &s->slab, s->comm, s->config->histogram, e));
  return transfer_open(&s->transfer, s->dev, &s->slab, ghosts, e);
}

/* Opens layers, sources and receivers. */
static int setup_actors(simulation *s, error *e) {
  const config *c = s->config;
  const physics *p = &s->physics;
  stepper *step = &s->stepper;
  const problem on = simulation_problem(s);
  absorb_open(&s->absorb, &on, &step->args, (absorb_motion){p->medium_max, p->dt}, e);
  TRY(error_agree(e, s->comm));
  sources_open(&s->sources, e);
  receivers_open(&s->receivers, e);
  TRY(error_agree(e, s->comm));
  step->absorb = absorb_needed(&s->absorb) ? &s->absorb : NULL;
  step->sources = c->source_count ? &s->sources : NULL;
  return 0;
}

int simulation_allocate(simulation *s, error *e) {
  setup_fields(s, e);
  TRY(error_agree(e, s->comm));
  TRY(setup_actors(s, e));
  const halo_setup exchanged = {.dev = s->dev,
                                .slab = &s->slab,
                                .comm = s->comm,
                                .fields = {s->stepper.memory[0], s->stepper.memory[1]}};
  bool persistent = s->config->schedule == SCHEDULE_PERSISTENT && s->ranks > 1;
  halo_open(&s->halo, persistent ? "ipc" : transport_name(s->config->transport), &exchanged, e);
  s->receivers.stream = s->halo.stream;
  if (!e->id) setup_open_schedule(s, e);
  TRY(error_agree(e, s->comm));
  return save_queue_open(&s->saves, e);
}

void simulation_close(simulation *s) {
  error ignored = {0};
  save_queue_close(&s->saves);
  free(s->saves.series.entries);
  free(s->saves.config_text);
  if (!s->dev) return;
  persistent_close(&s->persistent);
  halo_close(&s->halo);
  transfer_close(&s->transfer);
  survey_close(&s->saves.survey);
  receivers_close(&s->receivers);
  sources_close(&s->sources);
  absorb_close(&s->absorb);
  wavefront_close(&s->front);
  stepper_close(&s->stepper);
  s->dev->table->free(s->dev, s->medium, MEMORY_DEVICE, &ignored);
  for (int i = 0; i < 2; i++) s->dev->table->free(s->dev, s->stepper.memory[i], MEMORY_DEVICE, &ignored);
  s->dev->table->close(s->dev);
}
