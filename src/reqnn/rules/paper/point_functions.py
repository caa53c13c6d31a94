"""All well-known functions on points, by name."""

from reqnn.rules.paper.ball_query import BALL_QUERY
from reqnn.rules.paper.density_estimation import DENSITY_ESTIMATION
from reqnn.rules.paper.farthest_point_sampling import FARTHEST_POINT_SAMPLING
from reqnn.rules.paper.graph_construction import GRAPH_CONSTRUCTION
from reqnn.rules.paper.knn_grouping import KNN_GROUPING

FAMILIES = (FARTHEST_POINT_SAMPLING, BALL_QUERY, KNN_GROUPING, DENSITY_ESTIMATION, GRAPH_CONSTRUCTION)
KNOWN_FUNCTIONS = {name: known for known in FAMILIES for name in known.names}
