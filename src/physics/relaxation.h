/* Absorption as memory at a point: with B, what dt^2 v^2 multiplies,
 *   r_l = a_l r_l + b_l kappa B,   u' = 2u - u(before) + c dt^2 v^2 (B - sum r_l).
 * With M = 1 - kappa sum b_l / (1 - a_l exp(-i psi dt)), waves of frequency psi of the scheme have the wave number W /
 * (v sqrt(c M)). W = (2 / dt) sin(psi dt / 2) is their frequency in traces whose dispersion is removed. */
#ifndef STENCIL_RELAXATION_H
#define STENCIL_RELAXATION_H

#include <stdbool.h>

enum { RELAXATIONS_MAX = 3, RELAXATION_FREQUENCIES = 60 };

/* How losses depend on frequency: alpha v / omega = loss (omega / reference)^power, where the amplitude falls as
 * exp(-alpha x). Phase velocities hold at the reference. */
typedef struct loss_law {
  double reference;       /* rad/s */
  double lowest, highest; /* rad/s: the band in which the law is to hold */
  double loss, power;     /* of the strongest loss of the medium */
  double least;           /* the weakest loss that counts, at the reference */
} loss_law;

typedef struct relaxation {
  int count;
  double dt, reference; /* s, rad/s */
  double a[RELAXATIONS_MAX], b[RELAXATIONS_MAX];
  double worst; /* |alpha / law - 1| in the band, of the strongest loss or the weakest that counts */
} relaxation;

/* The loss at the reference and the power of a quality factor (E. Kjartansson, J. Geophys. Res. 84 (1979), 4737). */
void relaxation_of_quality(double quality, double *loss, double *power);

/* The loss at the reference of alpha0 dB/(MHz^y cm), at a reference in rad/s, for velocity v, m/s. */
double relaxation_of_attenuation(double alpha0, double y, double reference, double v);

/* Fits `count` mechanisms, 1 to RELAXATIONS_MAX, to the law: least squares of alpha / law - 1 at RELAXATION_FREQUENCIES
 * frequencies of the band. False where the band's end is beyond what steps of dt can carry. */
bool relaxation_fit(relaxation *r, const loss_law *law, int count, double dt);

/* alpha v / omega at the reference, for kappa. */
double relaxation_loss(const relaxation *r, double kappa);

/* kappa with which alpha v / omega is `loss` at the reference; at most 0.95 / relaxation_strength. */
double relaxation_kappa(const relaxation *r, double loss);

/* c, with which the phase velocity at the reference is v. */
double relaxation_speed(const relaxation *r, double kappa);

/* The sum of g, where b = (1 - a) g. kappa times this sum must be below 1, and is refused above 0.95. */
double relaxation_strength(const relaxation *r);

#endif
