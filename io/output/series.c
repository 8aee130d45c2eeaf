/* The list of saved fields with their times: PATH.xdmf for readers of XDMF 3, PATH.hdf.series for ParaView, which has
 * no other source of a series' times. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "io/bytes/atomic_file.h"
#include "io/hdf5/io_internal.h"

typedef struct series_list {
  const char *base;     /* of the names of the files */
  const int64_t *steps; /* count */
  int64_t count;
  const slab *slab;
  const field_meta *meta;
} series_list;

static void series_print_escaped(FILE *to, const char *text) {
  static const char signs[] = "&<>\"", *const words[] = {"amp", "lt", "gt", "quot"};
  for (const char *found; *text; text++) {
    if ((found = strchr(signs, *text)))
      fprintf(to, "&%s;", words[found - signs]);
    else
      fputc(*text, to);
  }
}

static void series_print_triple(FILE *to, const double xyz[3]) {
  fprintf(to, "          <DataItem Format=\"XML\" NumberType=\"Float\" Precision=\"8\" Dimensions=\"3\">");
  fprintf(to, "%.17g %.17g %.17g</DataItem>\n", xyz[2], xyz[1], xyz[0]); /* XDMF, too, counts z first */
}

static void series_print_grid(FILE *to, const series_list *l, int64_t step) {
  char shape[64];
  const field_grid g = field_grid_of(l->meta, l->slab);
  snprintf(shape, sizeof shape, "%d %d %d", g.cut[2].count, g.cut[1].count, g.cut[0].count);
  fprintf(to, "      <Grid Name=\"step %" PRId64 "\" GridType=\"Uniform\">\n", step);
  fprintf(to, "        <Time Value=\"%.17g\"/>\n", (double)step * l->meta->run.dt);
  fprintf(to, "        <Topology TopologyType=\"3DCoRectMesh\" Dimensions=\"%s\"/>\n", shape);
  fprintf(to, "        <Geometry GeometryType=\"ORIGIN_DXDYDZ\">\n");
  series_print_triple(to, g.origin);
  series_print_triple(to, g.spacing);
  fprintf(to,
          "        </Geometry>\n"
          "        <Attribute Name=\"u\" AttributeType=\"Scalar\" Center=\"Node\">\n"
          "          <DataItem Format=\"HDF\" NumberType=\"Float\" Precision=\"4\" Dimensions=\"%s\">",
          shape);
  series_print_escaped(to, l->base);
  fprintf(to, ".%08" PRId64 ".hdf:/u</DataItem>\n        </Attribute>\n      </Grid>\n", step);
}

static void series_print_xdmf(FILE *to, const series_list *l) {
  fprintf(to, "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<Xdmf Version=\"3.0\">\n  <Domain>\n");
  fprintf(to, "    <Grid Name=\"series\" GridType=\"Collection\" CollectionType=\"Temporal\">\n");
  for (int64_t i = 0; i < l->count; i++) series_print_grid(to, l, l->steps[i]);
  fprintf(to, "    </Grid>\n  </Domain>\n</Xdmf>\n");
}

static void series_print_json(FILE *to, const series_list *l) {
  fprintf(to, "{\n  \"file-series-version\": \"1.0\",\n  \"files\": [");
  for (int64_t i = 0; i < l->count; i++) {
    fprintf(to, "%s\n    {\"name\": \"", i ? "," : "");
    for (const char *c = l->base; *c; c++)
      fprintf(to, (unsigned char)*c < ' ' ? "\\u%04x" : *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    fprintf(to, ".%08" PRId64 ".hdf\", \"time\": %.17g}", l->steps[i], (double)l->steps[i] * l->meta->run.dt);
  }
  fprintf(to, "\n  ]\n}\n");
}

enum series_found series_find(const char *path, int64_t step, const slab *s, const field_meta *meta) {
  const field_grid g = field_grid_of(meta, s);
  char name[FILE_NAME], why[HDF5_TEXT];
  error ignored = {0};
  double extent[6], origin[3], spacing[3];
  if (path_step_name(name, path, step, ".hdf", &ignored) || access(name, R_OK)) return SERIES_ABSENT;
  hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
  hid_t image = file < 0 ? -1 : H5Gopen2(file, "VTKHDF", H5P_DEFAULT);
  bool same = image >= 0 && attribute_get_numbers(image, "WholeExtent", 6, extent, why) == 6 &&
              attribute_get_numbers(image, "Origin", 3, origin, why) == 3 &&
              attribute_get_numbers(image, "Spacing", 3, spacing, why) == 3;
  for (int i = 0; same && i < 3; i++)
    same = extent[2 * i + 1] == g.cut[i].count - 1 && origin[i] == g.origin[i] && spacing[i] == g.spacing[i];
  if (image >= 0) H5Gclose(image);
  if (file >= 0) H5Fclose(file);
  return same ? SERIES_SAME : SERIES_OTHER;
}

typedef void series_printer(FILE *to, const series_list *l);

static int series_put(const char *path, const char *ending, series_printer *print, const series_list *l,
                      error *e) {
  char file[FILE_NAME], *text = NULL;
  size_t length = 0;
  TRY(path_name(file, path, ending, e));
  if (!print) return unlink(file) && errno != ENOENT ? FAIL(e, FILE_WRITE, file, strerror(errno)) : 0;
  FILE *to = open_memstream(&text, &length);
  if (to) print(to, l);
  if (!to || fclose(to)) FAIL(e, OUT_OF_MEMORY, length, "the list of saved fields");
  if (!e->id) text_write(file, text, e);
  free(text);
  return e->id;
}

int series_write(const char *path, const int64_t *steps, int64_t count, const slab *s, const field_meta *meta,
                 error *e) {
  const char *slash = strrchr(path, '/');
  const series_list l = {slash ? slash + 1 : path, steps, count, s, meta};
  /* VTK's reader of XDMF crashes where there is no field */
  TRY(series_put(path, OUTPUT_ENDINGS[OUTPUT_XDMF], count ? series_print_xdmf : NULL, &l, e));
  return series_put(path, OUTPUT_ENDINGS[OUTPUT_PARAVIEW], series_print_json, &l, e);
}

int series_move_aside(const char *path, const char *ending, int number, error *e) {
  const char *const digits = "0123456789";
  char file[FILE_NAME + 16], *text = NULL, *made = NULL;
  size_t length = 0;
  snprintf(file, sizeof file, "%s.old%d%s", path, number, ending);
  TRY(text_read(file, &text, e));
  if (!text) return 0;
  FILE *to = open_memstream(&made, &length);
  for (const char *c = text; to && *c; c++) {
    const char *end = *c == '.' ? c + 1 + strspn(c + 1, digits) : c;
    /* a name ends with a quotation mark, or goes on with a dataset */
    if (end - c > 8 && strncmp(end, ".hdf", 4) == 0 && (end[4] == '"' || end[4] == ':'))
      fprintf(to, ".old%d", number);
    fputc(*c, to);
  }
  if (!to || fclose(to)) FAIL(e, OUT_OF_MEMORY, length, "the list of saved fields");
  if (!e->id) text_write(file, made, e);
  free(text);
  free(made);
  return e->id;
}
