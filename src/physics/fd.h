/* Finite differences: weights of the second derivative, and the stability and accuracy that follow from them. */
#ifndef STENCIL_FD_H
#define STENCIL_FD_H

/* Weights of the central second derivative of `order` (2, 4, 6 or 8) on spacing 1: w[0] of the point itself, w[r] of
 * each of both points at distance r; w[r] = 0 where r > order / 2. Fornberg, Generation of finite difference formulas
 * on arbitrarily spaced grids, Math. Comp. 51 (1988), table 1. */
void fd_weights(int order, double w[5]);

/* Changes the last bits of rounded weights until the stencil sums to `sum` again: with sum = 0 it leaves a constant
 * field alone. The error of rounding is small, but the same in every step: a wave's mean would oscillate or grow. No
 * side weight changes by more than 1e-6 of itself. axes: for each axis the weights at offsets 0 (unused) to 4. */
void fd_balance(double sum, float *center, float *const axes[3]);

/* S = sum over the axes of sum |w_r| / h^2, 1/m^2: the largest eigenvalue of the negative Laplacian on a grid of this
 * spacing (x, y, z, in m; 0: the axis does not exist). Heat is stable for dt <= 2 / (alpha S), the wave equation for dt
 * <= 2 / (v sqrt(S)). */
double fd_sum(int order, const double spacing[3]);

/* Numerical over true phase velocity of a plane wave along an axis of `points` points per wavelength, advanced by
 * leapfrog with `courant` = v dt / h: omega = 2/dt asin(v dt K / 2), K^2 = -(w_0 + 2 sum w_r cos(r k h)) / h^2; courant
 * 0: exact in time. */
double fd_phase_velocity(int order, double points, double courant);

#endif
