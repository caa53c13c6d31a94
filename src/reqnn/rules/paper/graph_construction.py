"""Table 1, "Graph construction": edges [f_j − f_i, f_i] to the k nearest; has both properties by itself."""

from reqnn.rules.point_function import Known

GRAPH_CONSTRUCTION = Known("Graph construction", ("get_graph_feature", "graph_feature", "get_edge_feature", "build_graph"))
