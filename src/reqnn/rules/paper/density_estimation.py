"""Table 1, "Density estimation": made of distances, so it has both properties by itself."""

from reqnn.rules.point_function import Known

DENSITY_ESTIMATION = Known("Density estimation", ("compute_density", "density", "estimate_density"))
