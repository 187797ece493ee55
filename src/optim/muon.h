/* The constants of muon's Newton-Schulz rounds, for the reference and for devices. */
#ifndef SL_OPTIM_MUON_H
#define SL_OPTIM_MUON_H

/* A = X X^T,  B = b*A + c*A A,  X = a*X + B X, from X = U / max(|U|, eps) */
#define SL_MUON_A 3.4445
#define SL_MUON_B (-4.7750)
#define SL_MUON_C 2.0315
#define SL_MUON_EPS 1e-7

#endif
