/* The files of all equations. Included once for float64 numbers, and for each kind of vec (point_body.h). */
#include "heat.h"
#include "jacobi.h"
#include "wave.h"
